package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// The engine's own statements run as transactions of one statement, or a few, sent
// whole in one pipeline, so that each costs one round trip:
//
//	BEGIN …; pin the plan; the statements; COMMIT
//
// The pool is the program's, and so are the defaults of its role. Stating the
// transaction's mode and settings here, to last until its end, makes the engine
// independent of both and leaves no trace on the connection.
const (
	beginWrite = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
	beginRead  = "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY"
	commit     = "COMMIT"
)

// pinSQL leaves the planner one choice: walk the index that the statement was
// written for and reach everything else by primary key. What is pinned against:
// after a burst the statistics are those of an almost empty table, for which
// scanning it whole, or hashing all of it, looks cheapest; a claim planned like
// that took seconds. Generic plans save planning each batch anew; those made
// while the tables were empty are still in use when they are not. A forced plan is
// priced beyond all bounds, which would set off the JIT compiler, so that is off
// too. Nor is a join to remember what it looked up: every ref comes once, and to keep
// its intent for another time was an eighth of what a claim cost for each row.
//
// One way to go wrong is left, to turn a join of a batch with a table around: walk
// the primary key from end to end and look through the batch for each of its rows.
// The planner considers that for an equality only, because it could merge along
// one, so the statements join by ref BETWEEN x AND x.
//
// A claim must not be lost once it was handed out, so a role that commits
// asynchronously is overruled.
const pinSQL = `
SELECT set_config('enable_seqscan', 'off', true),
       set_config('enable_bitmapscan', 'off', true),
       set_config('enable_hashjoin', 'off', true),
       set_config('enable_mergejoin', 'off', true),
       set_config('enable_memoize', 'off', true),
       set_config('enable_sort', 'off', true),
       set_config('max_parallel_workers_per_gather', '0', true),
       set_config('jit', 'off', true),
       set_config('plan_cache_mode', 'force_generic_plan', true),
       set_config('synchronous_commit',
                  CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END,
                  true)`

// durableSQL is what a transaction needs that the store opens for a caller: what it
// says was committed must stay committed, whatever the role's default is.
const durableSQL = `SELECT set_config('synchronous_commit',
    CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true)`

// statement is what one transaction of the engine runs. each is called for every
// row, while nothing is committed yet: what it collects counts only if the whole
// transaction succeeds.
type statement struct {
	sql  string
	args []any
	each func(pgx.Rows) error
}

// write runs one statement in a transaction of its own and returns once it is
// durable.
func (e *engine) write(ctx context.Context, op, sql string, args []any, each func(pgx.Rows) error) error {
	return clean(op, e.roundTrip(ctx, beginWrite, statement{sql, args, each}))
}

// read runs one statement in a read-only transaction of its own.
func (e *engine) read(ctx context.Context, op, sql string, args []any, each func(pgx.Rows) error) error {
	return clean(op, e.roundTrip(ctx, beginRead, statement{sql, args, each}))
}

func (e *engine) roundTrip(ctx context.Context, begin string, all ...statement) (err error) {
	conn, err := e.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	// After an error the connection is inside a failed transaction, and Release
	// closes it rather than giving it back.
	defer conn.Release()
	var b pgx.Batch
	b.Queue(begin)
	b.Queue(pinSQL)
	for _, s := range all {
		b.Queue(s.sql, parameters(conn.Conn(), s.args)...)
	}
	b.Queue(commit)
	results := conn.SendBatch(ctx, &b)
	defer func() {
		// Close reads up to the server's word that it is idle again, which it
		// gives after the commit, so that a commit which failed is seen here.
		if closed := results.Close(); err == nil {
			err = closed
		}
	}()
	for range 2 {
		if _, err := results.Exec(); err != nil {
			return err
		}
	}
	for _, s := range all {
		rows, err := results.Query()
		if err != nil {
			return err
		}
		if err := drain(rows, s.each); err != nil {
			return err
		}
	}
	tag, err := results.Exec()
	if err != nil {
		return err
	}
	if tag.String() != commit {
		return fmt.Errorf("the server answered COMMIT with %s: %w", tag, pgx.ErrTxCommitRollback)
	}
	return nil
}

// drain hands every row to each and reads to the end.
func drain(rows pgx.Rows, each func(pgx.Rows) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := each(rows); err != nil {
			return err
		}
	}
	rows.Close()
	return rows.Err()
}

// parameters puts args into the form that conn can send. Where nothing was
// prepared, pgx goes by the Go type alone and does not know ours.
func parameters(conn *pgx.Conn, args []any) []any {
	if unprepared(conn) {
		return literals(args)
	}
	return args
}

// unprepared reports whether conn prepares nothing. It remembers that with conn,
// because the way to ask is a copy of all that conn was made with.
func unprepared(conn *pgx.Conn) bool {
	const key = "consign: unprepared"
	known := conn.PgConn().CustomData()
	answer, ok := known[key].(bool)
	if !ok {
		mode := conn.Config().DefaultQueryExecMode
		answer = mode == pgx.QueryExecModeExec || mode == pgx.QueryExecModeSimpleProtocol
		known[key] = answer
	}
	return answer
}

// inside runs fn in a transaction of its own, pinned like the engine's single
// statements, and returns once it is durable.
func (e *engine) inside(ctx context.Context, op string, fn func(tx pgx.Tx) error) error {
	return clean(op, pgx.BeginTxFunc(ctx, e.pool, pgx.TxOptions{BeginQuery: beginWrite}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, pinSQL); err != nil {
			return err
		}
		return fn(tx)
	}))
}

// query runs one statement inside tx and hands every row to each.
func query(ctx context.Context, tx pgx.Tx, sql string, args []any, each func(pgx.Rows) error) error {
	rows, err := tx.Query(ctx, sql, parameters(tx.Conn(), args)...)
	if err != nil {
		return err
	}
	return drain(rows, each)
}

package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/consign-go/consign/internal/migration"
)

//go:embed sql/*.sql
var embedded embed.FS

func sqlFiles() fs.FS {
	files, err := fs.Sub(embedded, "sql")
	if err != nil {
		panic(err) // the folder is compiled in
	}
	return files
}

// target is the database as package migration sees it.
type target struct{ e *engine }

// Steps returns the embedded steps.
func (t target) Steps() []migration.Step { return t.e.steps }

// createSQL asks before it creates, because CREATE … IF NOT EXISTS wants the right
// to create even where there is nothing to do: a program whose role may only read
// and write can still find out that it is up to date.
const createSQL = `DO $create$
BEGIN
    IF to_regnamespace('{schema}') IS NULL THEN
        CREATE SCHEMA {schema};
    END IF;
    IF to_regclass('{s}migration') IS NULL THEN
        CREATE TABLE {s}migration (
            version    integer PRIMARY KEY,
            name       text NOT NULL,
            checksum   text NOT NULL,
            oldest     integer NOT NULL,
            applied_at timestamptz NOT NULL
        );
    END IF;
END
$create$;`

// Dialect says how the list of applied steps is kept.
func (t target) Dialect() migration.Dialect {
	table := t.e.expand("{s}migration")
	return migration.Dialect{
		Create: strings.ReplaceAll(t.e.expand(createSQL), "{schema}", `"`+t.e.schema+`"`),
		Record: func(s migration.Step) string {
			return fmt.Sprintf("INSERT INTO %s (version, name, checksum, oldest, applied_at)\nVALUES (%d, '%s', '%s', %d, clock_timestamp());",
				table, s.Version, s.Name, s.Checksum, s.Oldest)
		},
		Forget: func(version int) string {
			return fmt.Sprintf("DELETE FROM %s WHERE version = %d;", table, version)
		},
	}
}

// Lock runs fn in one transaction that holds the advisory lock of this schema.
func (t target) Lock(ctx context.Context, fn func(ctx context.Context, s migration.Session) error) error {
	err := pgx.BeginTxFunc(ctx, t.e.pool, pgx.TxOptions{BeginQuery: beginWrite}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1::bigint)", t.lockKey()); err != nil {
			return err
		}
		return fn(ctx, migrating{t.e, tx})
	})
	return advise(err)
}

// lockKey is the same in every program that migrates this schema.
func (t target) lockKey() int64 {
	h := fnv.New64a()
	h.Write([]byte("consign migration " + t.e.schema))
	return int64(h.Sum64())
}

// Applied reads the applied steps.
func (t target) Applied(ctx context.Context) ([]migration.Applied, error) {
	var list []migration.Applied
	err := pgx.BeginTxFunc(ctx, t.e.pool, pgx.TxOptions{BeginQuery: beginRead}, func(tx pgx.Tx) (err error) {
		list, err = migrating{t.e, tx}.Applied(ctx)
		return err
	})
	return list, advise(err)
}

// migrating is the transaction of Lock.
type migrating struct {
	e  *engine
	tx pgx.Tx
}

// appliedSQL lists the applied steps.
const appliedSQL = `SELECT version, name, checksum, oldest, applied_at FROM {s}migration ORDER BY version`

// Applied reads the applied steps; a missing list is empty.
func (m migrating) Applied(ctx context.Context) ([]migration.Applied, error) {
	var exists bool
	if err := m.tx.QueryRow(ctx, m.e.q.migrations).Scan(&exists); err != nil || !exists {
		return nil, err
	}
	var list []migration.Applied
	err := query(ctx, m.tx, m.e.expand(appliedSQL), nil, func(rows pgx.Rows) error {
		var a migration.Applied
		err := rows.Scan(&a.Version, &a.Name, &a.Checksum, &a.Oldest, (*instant)(&a.At))
		list = append(list, a)
		return err
	})
	return list, err
}

// Exec runs the statements of sql. They hold no parameters, so they can go in one
// message.
func (m migrating) Exec(ctx context.Context, sql string) error {
	_, err := m.tx.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	return clean("run", err)
}

// advise adds to the errors that a person can mend what to do about them.
func advise(err error) error {
	if err == nil {
		return nil
	}
	err = clean("migrate", err)
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code {
	case "42501": // insufficient_privilege
		return fmt.Errorf("%w; migrate with a role that may create in this database and schema, "+
			"or have its owner create the schema and grant CREATE on it", err)
	case "25006": // read_only_sql_transaction
		return fmt.Errorf("%w; this server is a replica: migrate on the primary", err)
	}
	return err
}

var _ migration.Target = target{}

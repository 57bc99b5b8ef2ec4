package receive

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"regexp"
	"strings"
)

// Store is the receiver's database, with its kind of transaction.
type Store[TX any] struct {
	table    string
	begin    func(ctx context.Context) (TX, error)
	commit   func(ctx context.Context, tx TX) error
	rollback func(ctx context.Context, tx TX) error
	on       func(tx TX) calls
	text     statements
}

// calls are what a statement needs of a transaction.
type calls struct {
	row  func(ctx context.Context, query string, args []any, dst ...any) error
	exec func(ctx context.Context, query string, args ...any) (int64, error)
}

// statements are what is said to a database.
type statements struct {
	create, hold, find, insert, forget string
	locks                              bool // hold asks for a lock and answers whether it got it
	probe                              bool // BEGIN tells whether there is still a transaction
}

//go:embed sql/postgres.sql
var createPostgres string

//go:embed sql/sqlite.sql
var createSQLite string

// On PostgreSQL a key is held by an advisory lock that ends with the transaction,
// after its commit can be seen: whoever gets the lock sees what the last holder
// did. Two keys with one hash only make one sender come back. A snapshot that is
// older than the lock (REPEATABLE READ) fails at the insert, on the primary key.
var postgresText = statements{
	create: createPostgres,
	hold:   `SELECT pg_try_advisory_xact_lock($1)`,
	find:   `SELECT digest, status, content_type, body FROM {t} WHERE source = $1 AND delivery_key = $2`,
	insert: `INSERT INTO {t} (source, delivery_key, digest, status, content_type, body) VALUES ($1, $2, $3, $4, $5, $6)`,
	forget: `DELETE FROM {t} WHERE (source, delivery_key) IN (SELECT source, delivery_key FROM {t}
		WHERE received_at < now() - $1 * interval '1 microsecond' ORDER BY received_at LIMIT $2)`,
	locks: true,
}

// On SQLite the transaction takes the write lock before it reads, by a change of
// nothing, and there is only one writer. Some errors of a statement, such as ON
// CONFLICT ROLLBACK and a full disk, roll the whole transaction back. Whether one did
// can be asked by BEGIN, which is refused inside a transaction and changes nothing.
var sqliteText = statements{
	create: createSQLite,
	hold:   `UPDATE {t} SET status = status WHERE source IS NULL`,
	find:   `SELECT digest, status, content_type, body FROM {t} WHERE source = ?1 AND delivery_key = ?2`,
	insert: `INSERT INTO {t} (source, delivery_key, digest, status, content_type, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)`,
	forget: `DELETE FROM {t} WHERE (source, delivery_key) IN (SELECT source, delivery_key FROM {t}
		WHERE received_at < CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER) - ?1 ORDER BY received_at LIMIT ?2)`,
	probe: true,
}

// DefaultTable is the table's name where none is given.
const DefaultTable = "consign_received"

var tableName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}(\.[a-z_][a-z0-9_]{0,62})?$`)

// in returns the statements for a table.
func (s statements) in(table string) statements {
	for _, text := range []*string{&s.create, &s.hold, &s.find, &s.insert, &s.forget} {
		*text = strings.ReplaceAll(*text, "{t}", table)
	}
	return s
}

// Postgres is a PostgreSQL database behind database/sql, with any driver. table may
// name its schema; "" means [DefaultTable].
func Postgres(db *sql.DB, table string) *Store[*sql.Tx] { return overSQL(db, postgresText, table) }

// SQLite is a SQLite database behind database/sql, with any driver: the program's
// own. table "" means [DefaultTable].
func SQLite(db *sql.DB, table string) *Store[*sql.Tx] { return overSQL(db, sqliteText, table) }

func overSQL(db *sql.DB, text statements, table string) *Store[*sql.Tx] {
	s := named[*sql.Tx](text, table)
	s.begin = func(ctx context.Context) (*sql.Tx, error) { return db.BeginTx(ctx, nil) }
	s.commit = func(_ context.Context, tx *sql.Tx) error { return tx.Commit() }
	s.rollback = func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() }
	s.on = func(tx *sql.Tx) calls {
		return calls{
			row: func(ctx context.Context, query string, args []any, dst ...any) error {
				return tx.QueryRowContext(ctx, query, args...).Scan(dst...)
			},
			exec: func(ctx context.Context, query string, args ...any) (int64, error) {
				r, err := tx.ExecContext(ctx, query, args...)
				if err != nil {
					return 0, err
				}
				return r.RowsAffected()
			},
		}
	}
	return s
}

// Pool is the part of a *pgxpool.Pool that opens transactions.
type Pool[TX any] interface {
	Begin(ctx context.Context) (TX, error)
}

// PgxTx is the part of a pgx.Tx that is used. pgx itself is not imported, so that a
// receiver on SQLite does not link it.
type PgxTx[Tag interface{ RowsAffected() int64 }, Row interface{ Scan(dst ...any) error }] interface {
	Exec(ctx context.Context, query string, args ...any) (Tag, error)
	QueryRow(ctx context.Context, query string, args ...any) Row
	Commit(ctx context.Context) error
	Rollback(ctx context.Context) error
}

// Pgx is a PostgreSQL database behind a pgx pool: receive.Pgx(pool, ""), with the
// type parameters inferred; the function of a handler gets a pgx.Tx. table may name
// its schema; "" means [DefaultTable].
func Pgx[TX PgxTx[Tag, Row], Tag interface{ RowsAffected() int64 }, Row interface{ Scan(dst ...any) error }](pool Pool[TX], table string) *Store[TX] {
	s := named[TX](postgresText, table)
	s.begin = pool.Begin
	s.commit = func(ctx context.Context, tx TX) error { return tx.Commit(ctx) }
	s.rollback = func(ctx context.Context, tx TX) error { return tx.Rollback(ctx) }
	s.on = func(tx TX) calls {
		return calls{
			row: func(ctx context.Context, query string, args []any, dst ...any) error {
				return tx.QueryRow(ctx, query, args...).Scan(dst...)
			},
			exec: func(ctx context.Context, query string, args ...any) (int64, error) {
				tag, err := tx.Exec(ctx, query, args...)
				return tag.RowsAffected(), err
			},
		}
	}
	return s
}

func named[TX any](text statements, table string) *Store[TX] {
	if table == "" {
		table = DefaultTable
	}
	return &Store[TX]{table: table, text: text.in(table)}
}

// Schema is the statement that creates the table unless it is there, for your own
// migrations.
func (s *Store[TX]) Schema() string { return s.text.create }

// Create creates the table unless it is there, in a transaction of its own.
// Programs that start at the same moment may get in each other's way on PostgreSQL:
// it is for tests and single programs; otherwise put [Store.Schema] into your
// migrations.
func (s *Store[TX]) Create(ctx context.Context) error {
	tx, err := s.begin(ctx)
	if err != nil {
		return fault("create", err)
	}
	if _, err := s.on(tx).exec(ctx, s.text.create); err != nil {
		s.rollback(context.WithoutCancel(ctx), tx)
		return fault("create", err)
	}
	return fault("create", s.commit(ctx, tx))
}

// absent reports that a query found no row: pgx's error is the standard library's.
func absent(err error) bool { return errors.Is(err, sql.ErrNoRows) }

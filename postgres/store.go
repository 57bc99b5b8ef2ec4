package postgres

import (
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/migration"
)

// Options are the optional parts of a store. The zero value works.
type Options struct {
	// Schema is where the tables are: a name of 1 to 63 characters from a-z, 0-9
	// and _, that starts with neither a digit nor "pg_". Several stores can share
	// a database under different schemas. Default: "consign".
	Schema string
}

// Store is a PostgreSQL database for programs whose transaction is a pgx.Tx. It
// is safe for concurrent use, and closing the pool stays with the program.
type Store struct{ bound pgxBound }

// New returns the store in pool. It does no IO. A bad schema name and a missing
// pool are errors.
func New(pool *pgxpool.Pool, o *Options) (*Store, error) {
	e, err := newEngine(pool, o)
	if err != nil {
		return nil, err
	}
	return &Store{pgxBound{e}}, nil
}

// Driver is for this module alone.
func (s *Store) Driver(driver.Key) driver.Bound[pgx.Tx] { return s.bound }

// Migrations is for this module alone; package migrate uses it.
func (s *Store) Migrations(driver.Key) migration.Target { return target{s.bound.engine} }

// SQLStore is a PostgreSQL database for programs whose transaction is a *sql.Tx.
type SQLStore struct{ bound sqlBound }

// NewSQL returns the store for callers who write through db. The engine itself
// works through pool, which must lead to the same database; what joins a caller's
// transaction, and what a view shows, goes through db. It does no IO. A bad schema
// name, a missing pool and a missing db are errors.
func NewSQL(pool *pgxpool.Pool, db *sql.DB, o *Options) (*SQLStore, error) {
	e, err := newEngine(pool, o)
	if err != nil {
		return nil, err
	}
	if db == nil {
		return nil, errors.New("postgres: no *sql.DB was given")
	}
	return &SQLStore{sqlBound{e, db}}, nil
}

// Driver is for this module alone.
func (s *SQLStore) Driver(driver.Key) driver.Bound[*sql.Tx] { return s.bound }

// Migrations is for this module alone; package migrate uses it.
func (s *SQLStore) Migrations(driver.Key) migration.Target { return target{s.bound.engine} }

// engine is what both kinds of store share: it implements driver.Driver on the
// pool.
type engine struct {
	pool   *pgxpool.Pool
	schema string // as given, unquoted
	q      statements
	steps  []migration.Step
	hear   hearing
}

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

func newEngine(pool *pgxpool.Pool, o *Options) (*engine, error) {
	if pool == nil {
		return nil, errors.New("postgres: no pool was given")
	}
	schema := "consign"
	if o != nil && o.Schema != "" {
		schema = o.Schema
	}
	if !schemaName.MatchString(schema) || strings.HasPrefix(schema, "pg_") {
		return nil, fmt.Errorf("postgres: schema %.70q: want 1 to 63 characters from a-z, 0-9 and _, "+
			"starting with a letter or _ and not with pg_", schema)
	}
	e := &engine{pool: pool, schema: schema, hear: usualHearing}
	steps, err := migration.Read(sqlFiles(), e.expand)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	e.steps = steps
	e.q = e.statements()
	return e, nil
}

// expand fills in where the tables are: {s} stands before each table, view and
// function. Indexes and triggers live beside their table by themselves, so {i} is
// empty.
func (e *engine) expand(sql string) string {
	return strings.NewReplacer("{s}", `"`+e.schema+`".`, "{i}", "").Replace(sql)
}

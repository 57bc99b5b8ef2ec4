// Package database opens the database that a URL names, and hides which kind of
// store it is.
package database

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/cli"
	"github.com/consign-go/consign/console"
	"github.com/consign-go/consign/migrate"
	"github.com/consign-go/consign/postgres"
	"github.com/consign-go/consign/sqlite"
)

// Options are the optional parts of a database.
type Options struct {
	Schema string // of PostgreSQL. Default: "consign"
	Prefix string // of SQLite. Default: "consign_"
	Create bool   // a missing SQLite file is made
}

// Database is an open database.
type Database struct {
	Store   migrate.Store
	Kind    string // "sqlite" or "postgres"
	program func(o *consign.Options) (*cli.Program, error)
	console func(o *console.Options) (*console.Console, error)
	close   func() error
}

// Program makes an outbox and returns the program around it.
func (d *Database) Program(o *consign.Options) (*cli.Program, error) { return d.program(o) }

// Console makes the web console.
func (d *Database) Console(o *console.Options) (*console.Console, error) { return d.console(o) }

// Advise returns a sentence for each setting that is not as it should be.
func (d *Database) Advise(ctx context.Context) ([]string, error) {
	return d.Store.(interface {
		Advise(ctx context.Context) ([]string, error)
	}).Advise(ctx)
}

// Close closes it.
func (d *Database) Close() error { return d.close() }

// wrong is an error about the URL.
func wrong(what, next string) error {
	return &cli.Error{Code: cli.ExitUsage, Err: errors.New(what), Next: next}
}

// Open opens the database that a URL names: sqlite:PATH, or a URL or keywords of
// PostgreSQL. It does no IO but to look for the file. What a URL of PostgreSQL holds
// may be secret and is in no error.
func Open(ctx context.Context, db string, o Options) (*Database, error) {
	path, isFile := strings.CutPrefix(db, "sqlite:")
	switch {
	case isFile:
		return openSQLite(path, o)
	case strings.HasPrefix(db, "postgres://"), strings.HasPrefix(db, "postgresql://"), strings.Contains(db, "=") && !strings.Contains(db, "://"):
		return openPostgres(ctx, db, o)
	}
	return nil, wrong("the database is named by no URL that is known", "Give --db as sqlite:PATH or postgres://HOST/DATABASE.")
}

// whole returns a database with its types hidden.
func whole[TX any, S interface {
	consign.Store[TX]
	migrate.Store
}](kind string, store S, close func() error) *Database {
	return &Database{
		Kind: kind, Store: store, close: close,
		program: func(o *consign.Options) (*cli.Program, error) {
			outbox, err := consign.New[TX](store, o)
			if err != nil {
				return nil, err
			}
			return cli.Of(outbox), nil
		},
		console: func(o *console.Options) (*console.Console, error) { return console.New[TX](store, o) },
	}
}

// usualConns is the size of a pool whose URL names none: what an engine uses at
// once, and as much again for look-ups, health and metrics.
const usualConns = 8

func openPostgres(ctx context.Context, db string, o Options) (*Database, error) {
	c, err := pgxpool.ParseConfig(db)
	if err != nil {
		return nil, wrong("the database is named by no URL of PostgreSQL", "Give --db as postgres://HOST/DATABASE; a password goes into CONSIGN_DB or PGPASSFILE.")
	}
	if !strings.Contains(db, "pool_max_conns") {
		c.MaxConns = usualConns
	}
	if c.ConnConfig.RuntimeParams["application_name"] == "" {
		c.ConnConfig.RuntimeParams["application_name"] = "consign"
	}
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), c)
	if err != nil {
		return nil, err
	}
	store, err := postgres.New(pool, &postgres.Options{Schema: o.Schema})
	if err != nil {
		pool.Close()
		return nil, wrong(err.Error(), "Mend the key schema, or leave it out.")
	}
	return whole("postgres", store, func() error { pool.Close(); return nil }), nil
}

// pragmas are what a connection to SQLite is set up with, and what a URL may say
// instead: WAL does not work on every file system.
var pragmas = []struct{ name, value string }{
	{"busy_timeout", "5000"}, // first: the others may meet a lock
	{"journal_mode", "wal"},
	{"synchronous", "full"},
}

// fileConns is how many connections there are to a file. One writes at a time;
// readers do not wait for it.
const fileConns = 4

func openSQLite(path string, o Options) (*Database, error) {
	path, query, _ := strings.Cut(path, "?")
	given, err := url.ParseQuery(query)
	if err != nil || path == "" || strings.HasPrefix(path, ":memory:") {
		return nil, wrong("the database is named by no path", "Give --db as sqlite:PATH, with a path to a file: what is in memory survives nothing.")
	}
	if strings.HasPrefix(path, "//") {
		path = strings.TrimPrefix(path, "//") // sqlite:///absolute and sqlite://relative
	}
	mode := "rw"
	if o.Create {
		mode = "rwc"
		if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
			return nil, &cli.Error{Code: cli.ExitFailed, Err: errors.New("the folder of the database file does not exist"),
				Next: "Make the folder, or name another file by --db."}
		}
	} else if _, err := os.Stat(path); err != nil {
		return nil, &cli.Error{Code: cli.ExitFailed, Err: errors.New("there is no database file " + path),
			Next: "Run \"consign migrate up\" to make it, or name another one by --db."}
	}
	dsn := "file:" + (&url.URL{Path: path}).EscapedPath() + "?mode=" + mode + "&_txlock=immediate"
	for _, p := range pragmas {
		value := p.value
		if given.Has(p.name) {
			value = given.Get(p.name)
			given.Del(p.name)
		}
		dsn += "&_pragma=" + url.QueryEscape(p.name+"("+value+")")
	}
	for name := range given {
		return nil, wrong("a database file has no setting "+name, "Known are busy_timeout, journal_mode and synchronous.")
	}
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(fileConns)
	store, err := sqlite.New(db, &sqlite.Options{Prefix: o.Prefix})
	if err != nil {
		db.Close()
		return nil, wrong(err.Error(), "Mend the key prefix, or leave it out.")
	}
	return whole("sqlite", store, db.Close), nil
}

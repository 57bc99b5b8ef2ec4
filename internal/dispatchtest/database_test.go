//go:build unix

package dispatchtest

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the raw view of PostgreSQL
	_ "modernc.org/sqlite"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
	"github.com/consign-go/consign/internal/migration"
	"github.com/consign-go/consign/internal/pgtest"
	"github.com/consign-go/consign/postgres"
	"github.com/consign-go/consign/sqlite"
)

// patience limits every wait of a test for something that must happen.
const patience = 5 * time.Minute

// address is where a database is, in words that another process understands.
type address struct {
	URL    string // of PostgreSQL
	Schema string
	File   string // of SQLite
}

// store is an open database as an engine uses it.
type store struct {
	driver.Driver
	registry driver.Registry
	begin    func(ctx context.Context) (driver.Tx, error)
	target   migration.Target
	close    func()
}

// open opens the database for one engine of its own.
func (a address) open() (*store, error) {
	if a.File != "" {
		db, err := sql.Open("sqlite", "file:"+a.File+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
		if err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(8)
		s, err := sqlite.New(db, nil)
		if err != nil {
			return nil, err
		}
		d := s.Driver(driver.Key{})
		return &store{d, d.(driver.Registry), beginning(d), s.Migrations(driver.Key{}), func() { db.Close() }}, nil
	}
	c, err := pgxpool.ParseConfig(a.URL)
	if err != nil {
		return nil, err
	}
	c.MaxConns = 8
	pool, err := pgxpool.NewWithConfig(context.Background(), c)
	if err != nil {
		return nil, err
	}
	s, err := postgres.New(pool, &postgres.Options{Schema: a.Schema})
	if err != nil {
		return nil, err
	}
	d := s.Driver(driver.Key{})
	return &store{d, d.(driver.Registry), beginning(d), s.Migrations(driver.Key{}), pool.Close}, nil
}

func beginning[TX any](d driver.Bound[TX]) func(ctx context.Context) (driver.Tx, error) {
	return func(ctx context.Context) (driver.Tx, error) {
		return inTurn(func() (driver.Tx, error) {
			_, tx, err := d.Begin(ctx)
			return tx, err
		})
	}
}

// inTurn makes a call again that did not get its turn, and so did nothing: SQLite's
// writers wait for each other, on a loaded machine for longer than a call does.
func inTurn[T any](call func() (T, error)) (T, error) {
	for {
		out, err := call()
		if err == nil || !strings.Contains(err.Error(), "(waited ") {
			return out, err
		}
	}
}

// database is an empty database of one test, as its program that enqueues sees
// it, with the auditor's records.
type database struct {
	address
	*store
	*records

	refused atomic.Int64 // commits of the program that enqueues which failed
}

// databases are the two kinds of database, each made afresh.
var databases = []struct {
	name string
	make func(t *testing.T) address
}{
	{"postgres", func(t *testing.T) address { return address{URL: pgtest.URL(t), Schema: pgtest.Schema(t)} }},
	{"sqlite", func(t *testing.T) address { return address{File: filepath.Join(t.TempDir(), "consign.db")} }},
}

// onBoth runs a test on both databases.
func onBoth(t *testing.T, test func(t *testing.T, d *database)) {
	for _, b := range databases {
		t.Run(b.name, func(t *testing.T) { test(t, migrated(t, b.make(t))) })
	}
}

func migrated(t *testing.T, a address) *database {
	t.Helper()
	d := &database{address: a, store: a.mustOpen(t)}
	if _, err := migration.Up(t.Context(), d.target); err != nil {
		t.Fatal(err)
	}
	if a.File != "" {
		d.records = newRecords(t, "sqlite", "file:"+a.File+"?_pragma=busy_timeout(300000)", "consign_")
		return d
	}
	u, err := url.Parse(a.URL)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("search_path", a.Schema)
	u.RawQuery = q.Encode()
	d.records = newRecords(t, "pgx", u.String(), "")
	return d
}

// mustOpen opens the database until the test ends.
func (a address) mustOpen(t *testing.T) *store {
	t.Helper()
	s, err := a.open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

// kind is a kind of work or a channel, in words that another process understands.
type kind struct {
	Name     string
	Profile  lifecycle.Profile
	Contract lifecycle.Contract
}

func (k kind) fingerprint() (f [32]byte) {
	if k.Profile == lifecycle.Work {
		f = sha256.Sum256([]byte(k.Name))
	}
	return f
}

func (k kind) process() bool { return k.Contract.Retry == lifecycle.Process }

// named is k under another name.
func (k kind) named(name string) kind {
	k.Name = name
	return k
}

// grid is the profiles, retry owners and receivers under one set of times.
func grid(lease, timeout time.Duration) []kind {
	c := lifecycle.Contract{Retry: lifecycle.Schedule, MaxAttempts: 5, Lease: lease, Timeout: timeout}
	twice, loop := c, c
	twice.Idempotent = true
	loop.Retry = lifecycle.Process
	return []kind{
		{"scheduled", lifecycle.Message, c},
		{"scheduled, idempotent", lifecycle.Message, twice},
		{"looped", lifecycle.Message, loop},
		{"work", lifecycle.Work, c},
		{"work, idempotent", lifecycle.Work, twice},
	}
}

// rows are n intents of kind k, each with a payload of its own.
func (k kind) rows(n int) []driver.New {
	out := make([]driver.New, n)
	for i := range out {
		r := &out[i]
		r.Ref = driver.NewID()
		r.Key, r.Profile, r.Kind, r.Contract, r.Given = r.Ref, k.Profile, k.Name, k.Contract, true
		r.Payload = fmt.Appendf(nil, `{"of":"%s","text":"%s"}`, r.Ref, strings.Repeat("x", 200))
		r.Digest = sha256.Sum256(r.Payload)
		if k.Profile == lifecycle.Work {
			r.Fingerprint, r.Version, r.Run, r.WorkKey = k.fingerprint(), "1", driver.NewID(), "notice"
			r.Operation, r.Actor, r.Tenant, r.SecurityVersion = "triage", "staff:7", "tenant:1", "v3"
			r.Target, r.TargetVersion, r.Given = "ticket:9", "4", false
		}
	}
	return out
}

// enqueue commits n intents of kind k and has the auditor know of them.
func (d *database) enqueue(t *testing.T, k kind, n int) []driver.ID {
	t.Helper()
	rows := k.rows(n)
	if err := d.commit(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	refs := make([]driver.ID, n)
	for i := range rows {
		refs[i] = rows[i].Ref
		d.expect(name(refs[i]), rows[i].Payload)
	}
	return refs
}

// commit inserts rows in a transaction of its own.
func (d *database) commit(ctx context.Context, rows []driver.New) error {
	tx, err := d.begin(ctx)
	if err != nil {
		return err
	}
	if err := tx.Insert(ctx, rows); err != nil {
		tx.Rollback(context.WithoutCancel(ctx))
		return err
	}
	return tx.Commit(ctx)
}

// name is an id as the auditor writes it.
func name(id driver.ID) string { return hex.EncodeToString(id[:]) }

// until waits for a condition that must come about.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

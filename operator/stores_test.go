package operator_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
	"github.com/consign-go/consign/internal/pgtest"
	"github.com/consign-go/consign/migrate"
	"github.com/consign-go/consign/operator"
	"github.com/consign-go/consign/postgres"
	"github.com/consign-go/consign/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Runner{M: m}) }

// store is what the databases are for these tests: the desk, with intents put in by
// hand.
type store interface {
	driver.Desk
	insert(ctx context.Context, rows ...driver.New) error
}

type on[TX any] struct {
	driver.Desk
	bound driver.Bound[TX]
}

func (o on[TX]) insert(ctx context.Context, rows ...driver.New) error {
	_, tx, err := o.bound.Begin(ctx)
	if err != nil {
		return err
	}
	if err := tx.Insert(ctx, rows); err != nil {
		tx.Rollback(ctx)
		return err
	}
	return tx.Commit(ctx)
}

// host is one database, with two operators at work on it.
type host struct {
	*testing.T
	ctx      context.Context
	store    store
	ann, bob *operator.Operator
	make     func(o consign.Options) outbox
	exec     func(query string, args ...any)
	text     func() string // everything that is stored, as text
}

// outbox is consign.Outbox without its transaction type.
type outbox interface {
	EnqueueNow(ctx context.Context, m consign.Message) (consign.Ref, error)
	Find(ctx context.Context, ref consign.Ref) (consign.Intent, error)
	Serve(ctx context.Context) error
	Drain(ctx context.Context, limit int) ([]consign.Result, error)
}

// onEveryStore runs a test on PostgreSQL and on an SQLite file.
func onEveryStore(t *testing.T, test func(h *host)) {
	t.Run("postgres", func(t *testing.T) {
		pool, schema := pgtest.Pool(t), pgtest.Schema(t)
		s, err := postgres.New(pool, &postgres.Options{Schema: schema})
		if err != nil {
			t.Fatal(err)
		}
		h := assemble(t, s)
		h.exec = func(query string, args ...any) {
			h.Helper()
			if _, err := pool.Exec(h.ctx, strings.ReplaceAll(query, "{s}", schema+"."), args...); err != nil {
				h.Fatal(err)
			}
		}
		h.text = func() (all string) {
			h.Helper()
			for _, table := range tables {
				var text string
				query := fmt.Sprintf("SELECT COALESCE(string_agg(x::text, E'\\n'), '') FROM %s.%s x", schema, table)
				if err := pool.QueryRow(h.ctx, query).Scan(&text); err != nil {
					h.Fatal(err)
				}
				all += text + "\n"
			}
			return all
		}
		test(h)
	})
	t.Run("sqlite", func(t *testing.T) {
		db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "host.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		s, err := sqlite.New(db, nil)
		if err != nil {
			t.Fatal(err)
		}
		h := assemble(t, s)
		h.exec = func(query string, args ...any) {
			h.Helper()
			for i := range args {
				if id, ok := args[i].(consign.ID); ok {
					args[i] = id[:]
				}
			}
			if _, err := db.ExecContext(h.ctx, strings.ReplaceAll(query, "{s}", "consign_"), args...); err != nil {
				h.Fatal(err)
			}
		}
		h.text = func() string { h.Helper(); return dump(h, db) }
		test(h)
	})
}

var tables = []string{"intent", "delivery", "attempt", "resolution", "run", "approval", "audit"}

func dump(h *host, db *sql.DB) (all string) {
	for _, table := range tables {
		rows, err := db.QueryContext(h.ctx, "SELECT * FROM consign_"+table)
		if err != nil {
			h.Fatal(err)
		}
		columns, err := rows.Columns()
		if err != nil {
			h.Fatal(err)
		}
		for rows.Next() {
			values, into := make([]any, len(columns)), make([]any, len(columns))
			for i := range values {
				into[i] = &values[i]
			}
			if err := rows.Scan(into...); err != nil {
				h.Fatal(err)
			}
			all += fmt.Sprintf("%s\n", values)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			h.Fatal(err)
		}
	}
	return all
}

func assemble[TX any, S interface {
	consign.Store[TX]
	migrate.Store
}](t *testing.T, s S) *host {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // for a test that hangs
	t.Cleanup(cancel)
	if _, err := migrate.Up(ctx, s); err != nil {
		t.Fatal(err)
	}
	bound := s.Driver(driver.Key{})
	h := &host{T: t, ctx: ctx, store: on[TX]{bound.(driver.Desk), bound}}
	for _, o := range []**operator.Operator{&h.ann, &h.bob} {
		made, err := operator.New(s)
		if err != nil {
			t.Fatal(err)
		}
		*o = made
	}
	h.make = func(options consign.Options) outbox {
		h.Helper()
		o, err := consign.New(s, &options)
		if err != nil {
			h.Fatal(err)
		}
		return o
	}
	return h
}

// program is one that delivers through channels.
func (h *host) program(channels ...consign.Channel) outbox {
	h.Helper()
	return h.make(consign.Options{Channels: channels})
}

var (
	ann = operator.By{Who: "ann", Why: "weekly look"}
	bob = operator.By{Who: "bob", Why: "was called"}

	once   = lifecycle.Contract{Retry: lifecycle.Schedule, MaxAttempts: 3, Lease: time.Minute, Timeout: time.Second}
	twice  = lifecycle.Contract{Retry: lifecycle.Schedule, Idempotent: true, MaxAttempts: 3, Lease: time.Minute, Timeout: time.Second}
	looped = lifecycle.Contract{Retry: lifecycle.Process, MaxAttempts: 3, Lease: time.Minute, Timeout: time.Second}
)

const secret = "s3cret of nobody's business"

func (h *host) ok(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// message and work are intents to be put in.
func message(channel string, c lifecycle.Contract) driver.New {
	n := driver.New{Contract: c}
	n.Ref = driver.NewID()
	n.Key, n.Profile, n.Kind, n.Address = n.Ref, lifecycle.Message, channel, secret
	n.Payload = []byte(`{"text":"` + secret + `"}`)
	n.Digest = sha256.Sum256(n.Payload)
	return n
}

func work(kind string, c lifecycle.Contract) driver.New {
	n := message(kind, c)
	n.Profile, n.Address = lifecycle.Work, ""
	n.Version, n.Fingerprint = "1", sha256.Sum256([]byte(kind+" 1"))
	n.Run, n.WorkKey = driver.NewID(), "notice"
	n.Operation, n.Actor, n.Tenant, n.SecurityVersion = "triage", "staff:7", "tenant:3", "5"
	n.Target, n.TargetVersion = "ticket:41", "2"
	return n
}

// put commits intents.
func (h *host) put(rows ...driver.New) {
	h.Helper()
	h.ok(h.store.insert(h.ctx, rows...))
}

func refOf(n driver.New) consign.Ref { return consign.Ref{ID: consign.ID(n.Ref)} }

func (h *host) record(ref consign.Ref) driver.Record {
	h.Helper()
	found, err := h.store.Load(h.ctx, []driver.ID{driver.ID(ref.ID)})
	if err != nil || len(found) != 1 {
		h.Fatalf("%d records, %v", len(found), err)
	}
	return found[0]
}

// happen lets the owner of an intent report events, which must hold.
func (h *host) happen(ref consign.Ref, events ...lifecycle.Event) {
	h.Helper()
	for _, e := range events {
		r := h.record(ref)
		s := r.State
		e.Owner, e.Generation, e.Attempt = s.Owner, s.Generation, s.AttemptNo()
		if e.Kind == lifecycle.EvStart {
			e.Digest = r.Intent.Digest
		}
		t := lifecycle.DefaultPolicy.Apply(s, e)
		t.Ref = ref.ID
		held, err := h.store.Apply(h.ctx, []lifecycle.Transition{t})
		if err != nil || t.Answer != lifecycle.Apply || !held[0] {
			h.Fatalf("%s in %s: %s, %v, %v", e.Kind, s.Status, t.Answer, held, err)
		}
	}
}

// start puts an intent in and brings it in flight.
func (h *host) start(n driver.New) consign.Ref {
	h.Helper()
	h.put(n)
	h.claim(n)
	h.happen(refOf(n), is(lifecycle.EvStart))
	return refOf(n)
}

func (h *host) claim(n driver.New) {
	h.Helper()
	var owner lifecycle.Token
	rand.Read(owner[:])
	got, err := h.store.Claim(h.ctx, driver.ClaimRequest{
		Owner: owner, Program: "worker", Policy: lifecycle.DefaultPolicy, Refs: []driver.ID{n.Ref},
		Routes: []driver.RouteLimit{{Route: n.Route(), Limit: 1, Contract: n.Contract}},
	})
	if err != nil || len(got) != 1 {
		h.Fatalf("claimed %d, %v", len(got), err)
	}
}

func is(k lifecycle.EventKind) lifecycle.Event { return lifecycle.Event{Kind: k, Error: secret} }

// unknown puts an intent in whose outcome nobody knows, stopped by its owner.
func (h *host) unknown(n driver.New) consign.Ref {
	h.Helper()
	ref := h.start(n)
	h.happen(ref, is(lifecycle.EvUnknown))
	return ref
}

// rejected puts an intent in that was certainly not delivered.
func (h *host) rejected(n driver.New) consign.Ref {
	h.Helper()
	ref := h.start(n)
	h.happen(ref, is(lifecycle.EvRejected))
	return ref
}

// strand puts a started message in whose process is gone.
func (h *host) strand(n driver.New) consign.Ref {
	h.Helper()
	ref := h.start(n)
	past := h.past(time.Second)
	h.exec("UPDATE {s}delivery SET lease_until = "+past+", review_at = "+past+" WHERE ref = $1", ref.ID)
	return ref
}

// past is a time so long ago, in the SQL of the store.
func (h *host) past(d time.Duration) string {
	now, err := h.store.Now(h.ctx)
	h.ok(err)
	at := now.Add(-d)
	if strings.HasSuffix(h.Name(), "/sqlite") {
		return fmt.Sprint(at.UnixMicro())
	}
	return "'" + at.Format(time.RFC3339Nano) + "'"
}

// late keeps an outcome that came too late.
func (h *host) late(ref consign.Ref, generation int64, o lifecycle.Outcome) {
	h.Helper()
	h.ok(h.store.Append(h.ctx, []driver.Logged{{Ref: driver.ID(ref.ID), Attempt: lifecycle.Attempt{
		Generation: generation, Number: 1, Outcome: o, Code: lifecycle.Fenced, HTTPStatus: 201, Late: true,
	}}}))
}

// serves registers a live program.
func (h *host) serves(list ...driver.Serves) {
	h.Helper()
	h.ok(h.store.Register(h.ctx, driver.Program{ID: driver.NewID(), Name: "web", Serves: list}))
}

func servesMessage(channel string, c lifecycle.Contract) driver.Serves {
	return driver.Serves{Profile: lifecycle.Message, Kind: channel, Contract: c}
}

func servesWork(kind, version string, c lifecycle.Contract) driver.Serves {
	return driver.Serves{
		Profile: lifecycle.Work, Kind: kind, Version: version, Fingerprint: sha256.Sum256([]byte(kind + " " + version)), Contract: c,
	}
}

// show returns the entry of ref.
func (h *host) show(ref consign.Ref) operator.Entry {
	h.Helper()
	e, err := h.ann.Show(h.ctx, ref)
	h.ok(err)
	return e
}

// review returns the refs of the whole review list, read in small pages.
func (h *host) review() (refs []consign.Ref) {
	h.Helper()
	for after := ""; ; {
		page, err := h.ann.Review(h.ctx, operator.ReviewFilter{Limit: 2, After: after})
		h.ok(err)
		for _, e := range page.Entries {
			refs = append(refs, e.Ref)
		}
		if after = page.Next; after == "" {
			return refs
		}
	}
}

// together runs calls at the same time and returns their errors.
func together(calls ...func() error) []error {
	errs := make([]error, len(calls))
	var all, ready sync.WaitGroup
	ready.Add(len(calls))
	for i, call := range calls {
		all.Go(func() {
			ready.Done()
			ready.Wait()
			errs[i] = call()
		})
	}
	all.Wait()
	return errs
}

// is reports where err is not want.
func (h *host) is(what string, err, want error) {
	h.Helper()
	if !errors.Is(err, want) || want == nil && err != nil {
		h.Errorf("%s: %v, want %v", what, err, want)
	}
}

// refusal reports where err is not ErrRefused with a text in it.
func (h *host) refusal(what string, err error, text string) {
	h.Helper()
	if !errors.Is(err, operator.ErrRefused) || !strings.Contains(err.Error(), text) {
		h.Errorf("%s: %v, want a refusal with %q", what, err, text)
	}
}

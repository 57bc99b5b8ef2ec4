package bench

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/consign-go/consign/internal/canon"
	"github.com/consign-go/consign/internal/dispatch"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
	"github.com/consign-go/consign/migrate"
	"github.com/consign-go/consign/postgres"
)

// input is what is enqueued, by Consign and by the queue it is compared with.
type input struct {
	N    int    `json:"n"`
	Text string `json:"text"`
}

// newInput returns an input whose canonical form has size bytes.
func newInput(n, size int) input {
	const frame = len(`{"n":,"text":""}`)
	return input{N: n, Text: strings.Repeat("x", max(0, size-frame-len(strconv.Itoa(n))))}
}

// The contract of the kind of work that is drained: the defaults of consign.Work.
const workKind = "ticket.notice"

var (
	workPrint    = sha256.Sum256([]byte(workKind))
	workContract = lifecycle.Contract{
		Retry: lifecycle.Schedule, MaxAttempts: 3, Lease: 60 * time.Second, Timeout: 30 * time.Second, MaxAge: 24 * time.Hour,
	}
)

// people is how many actors and targets there are.
const people = 1000

// work is the subject of P1: every intent carries an authority, which is asked
// twice at its delivery, and its request is made canonical and digested.
type work struct {
	config  Config
	payload int
}

func (w work) reset(ctx context.Context, pool *pgxpool.Pool) error { return resetConsign(ctx, pool) }

// resetConsign empties Consign's tables.
func resetConsign(ctx context.Context, pool *pgxpool.Pool) error {
	store, err := postgres.New(pool, nil)
	if err != nil {
		return err
	}
	if _, err := migrate.Up(ctx, store); err != nil {
		return err
	}
	var names []string
	err = pool.QueryRow(ctx, "SELECT array_agg('consign.' || tablename) FROM pg_tables WHERE schemaname = 'consign' AND tablename <> 'migration'").
		Scan(&names)
	if err == nil {
		_, err = pool.Exec(ctx, "TRUNCATE "+strings.Join(names, ", "))
	}
	return err
}

// bound is the store behind a pool.
func bound(pool *pgxpool.Pool) (driver.Bound[pgx.Tx], error) {
	store, err := postgres.New(pool, nil)
	if err != nil {
		return nil, err
	}
	return store.Driver(driver.Key{}), nil
}

func (w work) enqueue(ctx context.Context, pool *pgxpool.Pool, first, n int) error {
	store, err := bound(pool)
	if err != nil {
		return err
	}
	return insertWork(ctx, store, first, n, w.payload)
}

// insertWork writes intents as the runs of an operation would, each run with one
// piece of work. The runs' own rows are left out: they are no part of the intent.
func insertWork[TX any](ctx context.Context, store driver.Bound[TX], first, n, size int) error {
	rows := make([]driver.New, n)
	for i := range rows {
		var err error
		if rows[i], err = newWork(first+i, size); err != nil {
			return err
		}
	}
	_, tx, err := store.Begin(ctx)
	if err != nil {
		return err
	}
	if err := tx.Insert(ctx, rows); err != nil {
		return errors.Join(err, tx.Rollback(ctx))
	}
	return tx.Commit(ctx)
}

func newWork(n, size int) (driver.New, error) {
	payload, err := canon.Object(newInput(n, size), canon.Limits{Bytes: 4096, Depth: 8})
	run := driver.NewID()
	ref := driver.WorkRef(run, "notice")
	return driver.New{
		Intent: driver.Intent{
			Ref: ref, Key: ref, Profile: lifecycle.Work, Kind: workKind, Payload: payload, Digest: canon.Digest(payload),
			Version: "1", Fingerprint: workPrint, Run: run, WorkKey: "notice", Operation: "ticket.triage",
			Actor: "staff:" + strconv.Itoa(n%people), Tenant: "tenant:1", SecurityVersion: "v3",
			Target: "ticket:" + strconv.Itoa(n%people), TargetVersion: "4",
		},
		Contract: workContract,
	}, err
}

// authority is a stand-in for the host's: it holds what a host would read.
type authority struct {
	security map[string]string // of each actor
	versions map[string]string // of each target
	calls    atomic.Int64
}

func newAuthority() *authority {
	a := &authority{security: map[string]string{}, versions: map[string]string{}}
	for i := range people {
		a.security["staff:"+strconv.Itoa(i)] = "v3"
		a.versions["ticket:"+strconv.Itoa(i)] = "4"
	}
	return a
}

// allow compares who admitted the work, and on what, with what is so now.
func (a *authority) allow(i *driver.Intent) error {
	a.calls.Add(1)
	switch {
	case a.security[i.Actor] != i.SecurityVersion || i.Tenant != "tenant:1":
		return &dispatch.Stop{Code: lifecycle.AuthorityRevoked}
	case a.versions[i.Target] != i.TargetVersion:
		return &dispatch.Stop{Code: lifecycle.RecordChanged}
	}
	return nil
}

// request is what the effect would send.
type request struct {
	Operation string `json:"operation"`
	Target    string `json:"target"`
	N         int    `json:"n"`
	Text      string `json:"text"`
}

// request builds what is sent, between two questions to the authority.
func (a *authority) request(i *driver.Intent) ([]byte, error) {
	if err := a.allow(i); err != nil {
		return nil, err
	}
	var in input
	if err := json.Unmarshal(i.Payload, &in); err != nil {
		return nil, err
	}
	body, err := canon.Object(request{i.Operation, i.Target, in.N, in.Text}, canon.Limits{Bytes: 16 << 10, Depth: 8})
	if err != nil {
		return nil, err
	}
	return body, a.allow(i)
}

// served is the kind of work as a program would serve it.
func (a *authority) served(delivered func()) *dispatch.Served {
	s := &dispatch.Served{
		Profile: lifecycle.Work, Kind: workKind, Version: "1", Fingerprint: workPrint,
		Contract: workContract, Schedule: dispatch.DefaultSchedule,
	}
	s.Deliver = func(ctx context.Context, t *dispatch.Task) error {
		body, err := a.request(&t.Intent)
		if err != nil {
			return err
		}
		err = t.Effect(ctx, canon.Digest(body), func(context.Context, dispatch.Attempt) error { return nil })
		if err == nil {
			delivered()
		}
		return err
	}
	return s
}

func (w work) drain(ctx context.Context, pool *pgxpool.Pool, n int) (took, stopping time.Duration, err error) {
	store, err := bound(pool)
	if err != nil {
		return 0, 0, err
	}
	return drainWork(ctx, store, w.config, n)
}

// drainWork delivers n pieces of work.
func drainWork(ctx context.Context, store driver.Driver, c Config, n int) (took, stopping time.Duration, err error) {
	a, count := newAuthority(), newCountdown(n)
	engine := dispatch.New(engineConfig(store, c, a.served(func() { count.add(1) })))
	took, stopping, err = serve(ctx, engine.Serve, count)
	if calls := a.calls.Load(); err == nil && calls < 2*int64(n) {
		err = fmt.Errorf("the authority was asked %d times for %d intents", calls, n)
	}
	return took, stopping, err
}

// engineConfig is an engine as the public constructor makes it, but for its sizes.
func engineConfig(store driver.Driver, c Config, served ...*dispatch.Served) dispatch.Config {
	d := dispatch.Config{
		Store: store, Served: served, Program: "bench", Workers: c.Workers, Batch: c.Batch, Lanes: c.Lanes,
	}
	d.Registry, _ = store.(driver.Registry)
	return d
}

// serve runs an engine until the count is complete.
func serve(ctx context.Context, engine func(context.Context) error, count *countdown) (took, stopping time.Duration, err error) {
	serving, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	began := time.Now()
	go func() { ended <- engine(serving) }()
	err = count.wait(ctx)
	took = time.Since(began)
	stop()
	if failed := <-ended; err == nil {
		err = failed
	}
	return took, time.Since(began) - took, err
}

func (w work) left(ctx context.Context, pool *pgxpool.Pool) (int, error) {
	return leftConsign(ctx, pool)
}

// leftConsign counts the deliveries that did not succeed.
func leftConsign(ctx context.Context, pool *pgxpool.Pool) (n int, err error) {
	err = pool.QueryRow(ctx, "SELECT count(*) FROM consign.delivery WHERE status <> 3").Scan(&n)
	return n, err
}

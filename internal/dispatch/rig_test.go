package dispatch

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/consign-go/consign/internal/canon"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/driver/memory"
	"github.com/consign-go/consign/internal/lifecycle"
)

// The contracts that the tests run under: the two profiles, the two retry owners.
var (
	scheduled = lifecycle.Contract{Retry: lifecycle.Schedule, MaxAttempts: 3, Lease: time.Minute, Timeout: 20 * time.Second}
	looped    = lifecycle.Contract{Retry: lifecycle.Process, MaxAttempts: 3, Lease: time.Minute, Timeout: 10 * time.Second}
)

func idempotent(c lifecycle.Contract) lifecycle.Contract { c.Idempotent = true; return c }

func process(c lifecycle.Contract) lifecycle.Contract { c.Retry = lifecycle.Process; return c }

func aged(c lifecycle.Contract, d time.Duration) lifecycle.Contract { c.MaxAge = d; return c }

// kind is a contract under a profile and a name, in the grid that tests go through.
type kind struct {
	name     string
	profile  lifecycle.Profile
	contract lifecycle.Contract
}

func (k kind) idempotent() bool { return k.contract.Idempotent }
func (k kind) process() bool    { return k.contract.Retry == lifecycle.Process }

// stopped is the status of what a person must look at.
func (k kind) stopped() lifecycle.Status {
	if k.profile == lifecycle.Work {
		return lifecycle.ReconciliationRequired
	}
	return lifecycle.Failed
}

// kinds is the whole grid: profile, retry owner, idempotent or not.
var kinds = []kind{
	{"work", lifecycle.Work, scheduled},
	{"work, idempotent", lifecycle.Work, idempotent(scheduled)},
	{"scheduled", lifecycle.Message, scheduled},
	{"scheduled, idempotent", lifecycle.Message, idempotent(scheduled)},
	{"looped", lifecycle.Message, looped},
	{"looped, idempotent", lifecycle.Message, idempotent(looped)},
}

// rig is a store, a far side and the engines between them, in one bubble of time.
type rig struct {
	*testing.T
	store *memory.Store
	far   *receiver
}

// inBubble runs a test in time that passes only while everybody waits, so that a
// lease of a minute takes none.
func inBubble(t *testing.T, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		s.Follow()
		test(&rig{T: t, store: s, far: newReceiver()})
	})
}

// served is kind k with the far side as its effect.
func (r *rig) served(k kind) *Served { return r.servedBy(k, r.far.receive) }

func (r *rig) servedBy(k kind, send func(ctx context.Context, t *Task, a Attempt) error) *Served {
	s := &Served{Profile: k.profile, Kind: k.name, Contract: k.contract, Schedule: Schedule{Waits: []time.Duration{time.Second, 5 * time.Second}}}
	s.Deliver = func(ctx context.Context, t *Task) error {
		return t.Effect(ctx, t.Intent.Digest, func(ctx context.Context, a Attempt) error { return send(ctx, t, a) })
	}
	return s
}

// engine is an engine on the rig's store that serves the given kinds.
func (r *rig) engine(served ...*Served) *Engine { return r.engineOn(r.store, served...) }

func (r *rig) engineOn(s driver.Driver, served ...*Served) *Engine {
	return New(Config{Store: s, Served: served, Workers: 16, Grace: 20 * time.Second})
}

// serve runs e until the returned function is called, which waits for its end.
func (r *rig) serve(e *Engine) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Serve(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}

// enqueue commits n intents of kind k.
func (r *rig) enqueue(k kind, n int) []driver.ID {
	return r.enqueueNew(k, n, func(int, *driver.New) {})
}

func (r *rig) enqueueNew(k kind, n int, change func(i int, row *driver.New)) []driver.ID {
	r.Helper()
	refs, rows := intents(k, n, change)
	insert(r.T, r.store, rows)
	return refs
}

// intents are n of kind k to insert.
func intents(k kind, n int, change func(i int, row *driver.New)) ([]driver.ID, []driver.New) {
	refs := make([]driver.ID, n)
	rows := make([]driver.New, n)
	payload := []byte(`{"a":1}`)
	for i := range rows {
		refs[i] = driver.NewID()
		rows[i] = driver.New{
			Intent:   driver.Intent{Ref: refs[i], Key: refs[i], Profile: k.profile, Kind: k.name, Payload: payload, Digest: canon.Digest(payload)},
			Contract: k.contract,
		}
		if k.profile == lifecycle.Work {
			rows[i].Run, rows[i].WorkKey, rows[i].Version = driver.NewID(), "notice", "1"
		}
		change(i, &rows[i])
	}
	return refs, rows
}

func insert(t testing.TB, s *memory.Store, rows []driver.New) {
	t.Helper()
	_, tx, err := s.Begin(context.Background())
	if err == nil {
		err = errors.Join(tx.Insert(context.Background(), rows), tx.Commit(context.Background()))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// record is what the store has of ref.
func (r *rig) record(ref driver.ID) driver.Record {
	r.Helper()
	found, err := r.store.Load(context.Background(), []driver.ID{ref})
	if err != nil || len(found) != 1 {
		r.Fatalf("%d records, %v", len(found), err)
	}
	return found[0]
}

// log is the attempt log of ref as outcomes, late ones marked.
func (r *rig) log(ref driver.ID) []string {
	rows, err := r.store.History(context.Background(), ref)
	if err != nil {
		r.Fatal(err)
	}
	var out []string
	for _, l := range rows {
		word := l.Outcome.String()
		if l.Late {
			word = "late " + word
		}
		out = append(out, word)
	}
	return out
}

// until waits for a condition, at most for d of the bubble's time.
func (r *rig) until(d time.Duration, what string, ok func() bool) {
	r.Helper()
	end := time.Now().Add(d)
	for pause := time.Millisecond; !ok(); pause = min(2*pause, time.Second) {
		if time.Now().After(end) {
			r.Fatalf("not within %s: %s", d, what)
		}
		time.Sleep(pause)
	}
}

// settled waits until every ref has come to an end, or is stranded.
func (r *rig) settled(d time.Duration, refs ...driver.ID) {
	r.Helper()
	r.until(d, "every intent ends", func() bool {
		found, err := r.store.Load(context.Background(), refs)
		return err == nil && !slices.ContainsFunc(found, func(f driver.Record) bool {
			return !f.State.Status.Terminal() && !f.State.Stranded()
		})
	})
}

// is reports a difference between where ref stands and where it should.
func (r *rig) is(ref driver.ID, status lifecycle.Status, code lifecycle.Code, uncertain bool) {
	r.Helper()
	s := r.record(ref).State
	if s.Status != status || s.Code != code || s.Uncertain != uncertain {
		r.Errorf("stands at %s %q uncertain %v, want %s %q %v", s.Status, s.Code, s.Uncertain, status, code, uncertain)
	}
}

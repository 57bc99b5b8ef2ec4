package consigntest_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/approval"
	"github.com/consign-go/consign/consigntest"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/pgtest"
	"github.com/consign-go/consign/migrate"
	"github.com/consign-go/consign/postgres"
	"github.com/consign-go/consign/sqlite"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// suite is a test on one kind of store.
type suite[TX comparable] struct {
	store  *consigntest.Store[TX]
	commit func(tx TX) error
}

func migrated[S migrate.Store](t *testing.T, store S, err error) S {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrate.Up(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	return store
}

func inMemory() suite[*consigntest.Tx] {
	return suite[*consigntest.Tx]{consigntest.NewStore(), (*consigntest.Tx).Commit}
}

func onSQLite(t *testing.T) suite[*sql.Tx] {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "test.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	store, err := sqlite.New(db, nil)
	return suite[*sql.Tx]{consigntest.On(migrated(t, store, err)), (*sql.Tx).Commit}
}

func onPostgres(t *testing.T) suite[pgx.Tx] {
	store, err := postgres.New(pgtest.Pool(t), &postgres.Options{Schema: pgtest.Schema(t)})
	return suite[pgx.Tx]{consigntest.On(migrated(t, store, err)), func(tx pgx.Tx) error { return tx.Commit(t.Context()) }}
}

func onPostgresSQL(t *testing.T) suite[*sql.Tx] {
	pool := pgtest.Pool(t)
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { db.Close() })
	store, err := postgres.NewSQL(pool, db, &postgres.Options{Schema: pgtest.Schema(t)})
	return suite[*sql.Tx]{consigntest.On(migrated(t, store, err)), (*sql.Tx).Commit}
}

func TestTransactionsShowWhatTheyEnqueue(t *testing.T) {
	t.Run("memory", func(t *testing.T) { inMemory().shows(t) })
	t.Run("sqlite", func(t *testing.T) { onSQLite(t).shows(t) })
	t.Run("postgres", func(t *testing.T) { onPostgres(t).shows(t) })
	t.Run("postgres-sql", func(t *testing.T) { onPostgresSQL(t).shows(t) })
}

var triage = consign.Admission{
	Operation: consign.Operation{Name: "triage"}, Actor: consign.Entity{Type: "staff", ID: "1"},
	Tenant: consign.Entity{Type: "tenant", ID: "1"}, Target: consign.Entity{Type: "ticket", ID: "1"},
}

func (s suite[TX]) shows(t *testing.T) {
	channel, far := consigntest.Channel("crm", errors.New("cut off"))
	outbox, err := consign.New(s.store, &consign.Options{Channels: []consign.Channel{channel}, Authority: consigntest.NewAuthority()})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	tx, err := s.store.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m := consign.Message{ID: consign.NewRef(), Channel: "crm", To: "them", Payload: map[string]any{"n": 1}, NotBefore: now.Add(time.Hour)}
	for range 2 { // the second time it is there already
		if _, err := outbox.Enqueue(ctx, tx, m); err != nil {
			t.Fatal(err)
		}
	}
	for _, fault := range []error{io.EOF, nil} { // the one that fails leaves nothing
		_, err = outbox.Join(ctx, tx, triage, func(_ context.Context, run *consign.Run) error {
			if fault != nil {
				if _, err := outbox.Enqueue(ctx, tx, consign.Message{Channel: "crm", Payload: map[string]any{"n": 2}}); err != nil {
					return err
				}
			}
			_, err := notice.Enqueue(run, "notice", noticeInput{"41"})
			return errors.Join(err, fault)
		})
		if !errors.Is(err, fault) {
			t.Fatal(err)
		}
	}
	for _, when := range []string{"open", "committed"} {
		got := consigntest.Enqueued(t, s.store, tx)
		if len(got) != 2 || got[0].Ref != m.ID || got[0].Profile != consign.ProfileMessage || got[0].To != "them" ||
			string(got[0].Payload) != `{"n":1}` || got[1].Profile != consign.ProfileWork || got[1].Kind != notice.Kind ||
			got[1].Key != "notice" || got[1].Target != "ticket:1" {
			t.Errorf("%s: enqueued %+v", when, got)
		}
		if when == "open" {
			if err := s.commit(tx); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, step := range []struct{ by, sends int }{{0, 0}, {59, 0}, {1, 1}, {10, 2}} {
		consigntest.Advance(t, s.store, time.Duration(step.by)*time.Minute)
		if _, err := outbox.Drain(ctx, 0); err != nil {
			t.Fatal(err)
		}
		if n := len(far.Messages()); n != step.sends || len(far.Attempts()) != n {
			t.Errorf("after %d more minutes: sent %d times, want %d", step.by, n, step.sends)
		}
	}
	if i, err := outbox.Find(ctx, m.ID); err != nil || i.Status != consign.StatusDelivered {
		t.Errorf("%s, %v", i.Status, err)
	}
}

// What a run of the program's own left is asked for by its transaction, whose
// function has returned by then.
func TestRunsShowWhatTheyEnqueue(t *testing.T) {
	t.Run("memory", func(t *testing.T) { inMemory().runs(t) })
	t.Run("sqlite", func(t *testing.T) { onSQLite(t).runs(t) })
	t.Run("postgres", func(t *testing.T) { onPostgres(t).runs(t) })
	t.Run("postgres-sql", func(t *testing.T) { onPostgresSQL(t).runs(t) })
}

func (s suite[TX]) runs(t *testing.T) {
	outbox, err := consign.New(s.store, &consign.Options{Authority: consigntest.NewAuthority()})
	if err != nil {
		t.Fatal(err)
	}
	for fault, want := range map[error]int{io.EOF: 0, nil: 2} {
		var inside TX
		_, err := outbox.Run(t.Context(), triage, func(ctx context.Context, tx TX, run *consign.Run) error {
			inside = tx
			_, err := outbox.Enqueue(ctx, tx, consign.Message{Channel: "crm", Payload: map[string]any{}})
			_, err2 := notice.Enqueue(run, "notice", noticeInput{"41"})
			return errors.Join(err, err2, fault)
		})
		if got := consigntest.Enqueued(t, s.store, inside); !errors.Is(err, fault) || len(got) != want {
			t.Errorf("a run that ends with %v enqueued %+v: %v", fault, got, err)
		}
	}
}

// Work is driven through its handler on any store, whatever comes back, and without
// waiting.
func TestDeliverOnEveryStore(t *testing.T) {
	t.Run("memory", func(t *testing.T) { inMemory().delivers(t) })
	t.Run("sqlite", func(t *testing.T) { onSQLite(t).delivers(t) })
	t.Run("postgres", func(t *testing.T) { onPostgres(t).delivers(t) })
	t.Run("postgres-sql", func(t *testing.T) { onPostgresSQL(t).delivers(t) })
}

func (s suite[TX]) delivers(t *testing.T) {
	for name, c := range map[string]struct {
		outcomes []error
		status   consign.Status
		code     consign.Code
		sends    int
	}{
		"at once":        {nil, consign.StatusSucceeded, "", 1},
		"refused":        {[]error{consign.Refused(io.EOF, time.Hour), consign.NotSent(io.EOF)}, consign.StatusSucceeded, "", 3},
		"rejected":       {[]error{consign.Rejected(io.EOF)}, consign.StatusReconciliationRequired, consign.CodeRejected, 1},
		"always unknown": {[]error{io.EOF, io.EOF, io.EOF}, consign.StatusReconciliationRequired, consign.CodeOutcomeUnknown, 3},
		"too late":       {[]error{consign.Refused(io.EOF, 24*time.Hour)}, consign.StatusCancelled, consign.CodeDeadlineExpired, 1},
	} {
		far, looks := consigntest.NewReceiver(c.outcomes...), 0
		deliver := func(ctx context.Context, d *consign.Delivery, in noticeInput) error {
			if err := consign.Read(ctx, d, func(TX) error { looks++; return nil }); err != nil {
				return err
			}
			return handler(far.Send)(ctx, d, in)
		}
		i := consigntest.DeliverOn(t, s.store, notice, deliver, noticeInput{"41"}, nil)
		if i.Status != c.status || i.Code != c.code || len(far.Attempts()) != c.sends || looks != c.sends {
			t.Errorf("%s: %s %q, sent %d times, looked %d times", name, i.Status, i.Code, len(far.Attempts()), looks)
		}
	}
}

// Time passes for approvals too, and a store that can wake others still can.
func TestTestStoresAreWholeStores(t *testing.T) {
	t.Run("memory", func(t *testing.T) { inMemory().whole(t, false) })
	t.Run("sqlite", func(t *testing.T) { onSQLite(t).whole(t, false) })
	t.Run("postgres", func(t *testing.T) { onPostgres(t).whole(t, true) })
	t.Run("postgres-sql", func(t *testing.T) { onPostgresSQL(t).whole(t, true) })
}

func (s suite[TX]) whole(t *testing.T, wakes bool) {
	if _, ok := s.store.Driver(driver.Key{}).(driver.Waker); ok != wakes {
		t.Errorf("wakes others: %v", ok)
	}
	approvals, err := approval.New(s.store)
	if err != nil {
		t.Fatal(err)
	}
	staff := consign.Entity{Type: "staff", ID: "1"}
	id, err := approvals.ProposeNow(t.Context(), approval.Proposal{Admission: triage, Proposer: staff, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	consigntest.Advance(t, s.store, 59*time.Minute)
	if a, err := approvals.Find(t.Context(), id); err != nil || a.Status != approval.Open {
		t.Errorf("after 59 minutes: %s, %v", a.Status, err)
	}
	consigntest.Advance(t, s.store, time.Minute)
	if a, err := approvals.Find(t.Context(), id); err != nil || a.Status != approval.Expired {
		t.Errorf("after an hour: %s, %v", a.Status, err)
	}
}

func TestOnRefusesWhatIsNoStore(t *testing.T) {
	for name, make := range map[string]func(){
		"nil":       func() { consigntest.On[*sql.Tx](nil) },
		"typed nil": func() { var s *sqlite.Store; consigntest.On(s) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s was taken for a store", name)
				}
			}()
			make()
		}()
	}
}

package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/pgtest"
)

// TestBehindPgBouncer: behind a real PgBouncer in transaction mode messages are
// enqueued and delivered, LISTEN is found to be dead, which is said once, and
// polling delivers. With one connection to the server the listener's own is the one
// that sends the probes; it must not take them for heard.
func TestBehindPgBouncer(t *testing.T) {
	for _, size := range []int{1, 3} {
		for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
			t.Run(fmt.Sprintf("%d connections/%s", size, mode), func(t *testing.T) { behindPgBouncer(t, size, mode) })
		}
	}
}

func behindPgBouncer(t *testing.T, size int, mode pgx.QueryExecMode) {
	leavesNothing(t)
	d := open(t)
	url := pgtest.Bouncer(t, size)
	pool := pgtest.Pool(t, func(c *pgxpool.Config) {
		through, err := pgx.ParseConfig(url)
		if err != nil {
			t.Fatal(err)
		}
		through.DefaultQueryExecMode = mode
		c.ConnConfig, c.MaxConns = through, 8
	})
	s, err := New(pool, &Options{Schema: d.schema})
	if err != nil {
		t.Fatal(err)
	}
	s.bound.hear.silence = 500 * time.Millisecond // here it lasts for ever
	said, delivered := make(chan error, 100), make(chan consign.Ref, 100)
	o, err := consign.New(s, &consign.Options{
		AutoDispatch: true,
		Channels: []consign.Channel{{Name: "mail", Deliver: func(_ context.Context, m consign.Message, _ consign.Attempt) error {
			delivered <- m.ID
			return nil
		}}},
		Observe: func(o consign.Observation) {
			switch o.Event {
			case "listen":
				said <- o.Err
			case "error", "fence":
				t.Errorf("%s: %v", o.Event, o.Err)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	direct := d.direct(t)
	ctx, stop := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := o.Serve(ctx); err != nil {
			t.Error(err)
		}
	})
	deliversAll := func() {
		t.Helper()
		want := map[consign.Ref]bool{}
		for i := range 20 {
			m := consign.Message{Channel: "mail", Payload: map[string]any{"n": i}}
			ref, err := o.EnqueueNow(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			want[ref] = true
			if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				ref, err = o.Enqueue(t.Context(), tx, m)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			want[ref] = true
		}
		for len(want) > 0 {
			ref := arrival(t, delivered)
			if !want[ref] {
				t.Fatalf("%s was delivered, twice or uncalled for", ref)
			}
			delete(want, ref)
		}
	}
	deliversAll()
	if err := arrival(t, said); !errors.Is(err, driver.ErrNoListen) {
		t.Fatalf("said %v", err)
	}
	deliversAll()
	if err := o.Wake(t.Context()); err != nil {
		t.Error(err)
	}
	for !isID(heard(t, direct)) { // hints to those who can hear go through
	}
	stop()
	serving.Wait()
	if len(said) != 0 {
		t.Errorf("said %v as well", <-said)
	}
}

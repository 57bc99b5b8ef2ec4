//go:build unix

package dispatchtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/consign-go/consign/internal/dispatch"
	"github.com/consign-go/consign/internal/pgtest"
)

// blow is when, around one call, PostgreSQL goes down, and how.
type blow struct {
	name string
	mode pgtest.Mode
	// befalls makes the call while down restarts the server.
	befalls func(d *database, call func() error, down func()) error
}

var blows = []blow{
	{"before the call", pgtest.Fast, func(_ *database, call func() error, down func()) error {
		down()
		return call()
	}},
	{"in the midst of it", pgtest.Kill, func(d *database, call func() error, down func()) error {
		blocker, err := d.block()
		if err != nil {
			return err
		}
		defer blocker.Close(context.Background()) // and not before: what nobody holds is collected, with its connection
		told := make(chan error, 1)
		go func() { told <- call() }()
		if err := d.blocked(); err != nil {
			return err
		}
		down()
		return <-told
	}},
	{"after its commit, before its answer", pgtest.Kill, func(_ *database, call func() error, down func()) error {
		if err := call(); err != nil {
			return err
		}
		down()
		return errGone
	}},
}

// block has a connection of its own keep everybody away from the deliveries, until
// the server goes down.
func (d *database) block() (*pgx.Conn, error) {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, d.URL)
	if err != nil {
		return nil, err
	}
	_, err = conn.Exec(ctx, "BEGIN; LOCK TABLE "+d.Schema+".delivery IN ACCESS EXCLUSIVE MODE", pgx.QueryExecModeSimpleProtocol)
	return conn, err
}

// blocked waits until a write of a delivery waits for its lock.
func (d *database) blocked() error {
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		n, err := d.one(context.Background(), `SELECT count(*) FROM pg_locks
			WHERE NOT granted AND mode <> 'AccessShareLock' AND relation = to_regclass($1)`, d.Schema+".delivery")
		switch { // an error is that of a connection from before the last restart
		case err == nil && n > 0:
			return nil
		case time.Now().After(end):
			return errors.Join(errors.New("nobody waits for the lock"), err)
		}
	}
}

// PostgreSQL is restarted at each durable step of a delivery: in order before the
// call, killed in the midst of it, and killed when it has committed and before it
// has said so. The engine waits the outage out. Nothing is lost, nothing is sent or
// settled twice, and nothing becomes uncertain.
func TestDatabaseRestartedAtAnyStepLosesNothingAndSettlesOnce(t *testing.T) {
	d := migrated(t, databases[0].make(t))
	far := newReceiver(t)
	kinds := grid(time.Minute, 10*time.Second)
	smooth := map[string]smooth{}
	for i, b := range blows {
		for j, step := range durableSteps {
			p := program{Address: d.address, Name: "restarted", Receiver: far.place(), Policy: steady}
			for n, k := range kinds {
				k = k.named(b.name + " " + step + " " + k.Name)
				p.Kinds = append(p.Kinds, k)
				ref := d.enqueue(t, k, 1)[0]
				s := smoothly(k, "restarted "+b.name+" of the "+step)
				if (i+j+n)%3 == 0 {
					s.refused = 1
				}
				far.refuses(name(ref), s.refused)
				smooth[name(ref)] = s
			}
			d.strikes(t, p, step, b)
		}
	}
	found := d.audit(t, far.all())
	for ref, s := range smooth {
		s.check(t, found[ref])
	}
}

// strikes has an engine deliver everything while the server is restarted in one
// call.
func (d *database) strikes(t *testing.T, p program, step string, b blow) {
	t.Helper()
	down, up := make(chan struct{}), make(chan struct{})
	w := &stricken{Driver: d.mustOpen(t).Driver, step: step}
	w.befall = func(call func() error) error {
		fell := false
		err := b.befalls(d, call, func() {
			fell = true
			close(down)
			<-up
		})
		if !fell {
			t.Errorf("%s %s: %v", b.name, step, err)
		}
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- dispatch.New(p.config(w, nil)).Serve(ctx) }()
	select {
	case <-down:
	case <-time.After(patience):
		t.Errorf("%s %s: it did not come to that", b.name, step)
	}
	pgtest.Restart(t, b.mode)
	close(up)
	until(t, "everything has come to an end", func() bool {
		n, err := d.unsettled(t.Context())
		return err == nil && n == 0
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	until(t, "whoever enqueues has a connection again", func() bool {
		_, err := d.Now(t.Context())
		return err == nil
	})
}

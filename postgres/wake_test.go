package postgres

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/dispatch"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
	"github.com/consign-go/consign/internal/pgtest"
)

// leavesNothing fails the test if it leaves a goroutine behind.
func leavesNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) }) // after the pools are closed
}

// ear is a running Listen and what it tells.
type ear struct {
	hints  chan struct{}
	states chan error
	ended  chan error
	stop   func()
}

func (e *engine) listenIn(t *testing.T) *ear {
	ctx, cancel := context.WithCancel(t.Context())
	r := &ear{hints: make(chan struct{}, 1000), states: make(chan error, 1000), ended: make(chan error, 1), stop: cancel}
	go func() {
		r.ended <- e.Listen(ctx, func(driver.ID) { r.hints <- struct{}{} }, func(err error) { r.states <- err })
	}()
	return r
}

// end stops it and fails the test if it ends with an error.
func (r *ear) end(t *testing.T) {
	t.Helper()
	r.stop()
	if err := arrival(t, r.ended); err != nil {
		t.Errorf("listen ended with %v", err)
	}
}

// arrival receives what is certain to come.
func arrival[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatal("it does not come")
	}
	return v
}

// listenerPID returns the one server process that listens.
func (d *database) listenerPID(t *testing.T) int {
	t.Helper()
	return one[int](t, d, "SELECT pid FROM pg_stat_activity WHERE query = $1 ORDER BY backend_start DESC LIMIT 1", `LISTEN "`+d.channel()+`"`)
}

// direct is a connection that listens, without the store.
func (d *database) direct(t *testing.T) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	if _, err := conn.Exec(t.Context(), `LISTEN "`+d.channel()+`"`); err != nil {
		t.Fatal(err)
	}
	return conn
}

// heard is the next payload that conn hears.
func heard(t *testing.T, conn *pgx.Conn) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	n, err := conn.WaitForNotification(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return n.Payload
}

// gate keeps a program from finding anything but by a hint: it claims nothing until
// one has come.
type gate struct {
	pgxBound
	open atomic.Bool
}

func (g *gate) Claim(ctx context.Context, r driver.ClaimRequest) ([]driver.Claimed, error) {
	if !g.open.Load() {
		return nil, nil
	}
	return g.pgxBound.Claim(ctx, r)
}

func (g *gate) Listen(ctx context.Context, wake func(from driver.ID), state func(err error)) error {
	return g.pgxBound.Listen(ctx, func(from driver.ID) {
		g.open.Store(true)
		wake(from)
	}, state)
}

// serveGated is a program that looks once an hour, on a pool of one connection, and
// says what it hears and delivers, until its input ends.
func serveGated(t *testing.T, schema string) {
	pool := pgtest.Pool(t, connections(1))
	s, err := New(pool, &Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{pgxBound: s.bound}
	e := dispatch.New(dispatch.Config{
		Store: g, Waker: g, Poll: time.Hour,
		Served: []*dispatch.Served{{
			Profile: lifecycle.Message, Kind: "mail", Contract: webhook, Schedule: dispatch.DefaultSchedule,
			Deliver: func(ctx context.Context, task *dispatch.Task) error {
				return task.Effect(ctx, task.Intent.Digest, func(context.Context, dispatch.Attempt) error {
					g.open.Store(false)
					fmt.Printf("\ntold %s\n", task.Intent.Ref)
					return nil
				})
			},
		}},
		Observe: func(o dispatch.Observation) {
			if o.Event == "listen" {
				fmt.Printf("\ntold listen %v\n", o.Err)
			}
		},
	})
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	if err := e.Serve(ctx); err != nil {
		t.Error(err)
	}
}

// TestCommitWakesAnotherProcess: a process that claims nothing without a hint
// delivers what another one committed: by itself with AutoDispatch, in the caller's
// transaction with Wake. Its pool of one connection is enough for both.
func TestCommitWakesAnotherProcess(t *testing.T) {
	if schema := os.Getenv(roleEnv); schema != "" {
		serveGated(t, schema)
		return
	}
	leavesNothing(t)
	d := open(t)
	auto, err := consign.New(d.Store, &consign.Options{AutoDispatch: true})
	if err != nil {
		t.Fatal(err)
	}
	manual, err := consign.New(d.Store, nil)
	if err != nil {
		t.Fatal(err)
	}
	told, end := startGated(t, d.schema)
	if word := arrival(t, told); word != "listen <nil>" {
		t.Fatalf("the process says %q", word)
	}
	for i := range 3 {
		m := consign.Message{Channel: "mail", Payload: map[string]any{"n": i}}
		ref, err := auto.EnqueueNow(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		if word := arrival(t, told); word != ref.String() {
			t.Fatalf("the process says %q, want that it delivers %s", word, ref)
		}
		if err := pgx.BeginFunc(t.Context(), d.pool, func(tx pgx.Tx) error {
			ref, err = manual.Enqueue(t.Context(), tx, m)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if err := manual.Wake(t.Context()); err != nil {
			t.Fatal(err)
		}
		if word := arrival(t, told); word != ref.String() {
			t.Fatalf("the process says %q, want that it delivers %s", word, ref)
		}
	}
	end()
}

// startGated starts serveGated as a process.
func startGated(t *testing.T, schema string) (told <-chan string, end func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
	cmd.Env = append(os.Environ(), roleEnv+"="+schema, "CONSIGN_TEST_POSTGRES="+pgtest.URL(t))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	words, ended := make(chan string, 100), make(chan error, 1)
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if word, ok := strings.CutPrefix(lines.Text(), "told "); ok {
				words <- word
			}
		}
		ended <- cmd.Wait()
	}()
	end = sync.OnceFunc(func() {
		in.Close()
		if err := <-ended; err != nil {
			t.Errorf("the process: %v", err)
		}
	})
	t.Cleanup(end)
	return words, end
}

// TestNothingIsNotifiedInACallersTransaction: a transaction that notifies waits for
// a lock of the whole database as it commits. Notifications come in the order of
// commits, so what is heard first after a caller's commit shows that it sent none.
// Neither does a commit of Consign's own, unless AutoDispatch is on.
func TestNothingIsNotifiedInACallersTransaction(t *testing.T) {
	leavesNothing(t)
	d := open(t)
	o, err := consign.New(d.Store, &consign.Options{AutoDispatch: true})
	if err != nil {
		t.Fatal(err)
	}
	conn := d.direct(t)
	m := consign.Message{Channel: "mail", Payload: map[string]any{}}
	if err := pgx.BeginFunc(t.Context(), d.pool, func(tx pgx.Tx) error {
		_, one := o.Enqueue(t.Context(), tx, m)
		_, many := o.EnqueueAll(t.Context(), tx, []consign.Message{m, m})
		return errors.Join(one, many)
	}); err != nil {
		t.Fatal(err)
	}
	silent, err := consign.New(d.Store, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := silent.EnqueueNow(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	d.exec(t, "SELECT pg_notify($1, 'after the commit')", d.channel())
	if payload := heard(t, conn); payload != "after the commit" {
		t.Errorf("the caller's transaction, or a commit without AutoDispatch, sent %q", payload)
	}
	if err := o.Wake(t.Context()); err != nil {
		t.Fatal(err)
	}
	if payload := heard(t, conn); !isID(payload) {
		t.Errorf("a hint carries %q", payload)
	}
}

// isID reports whether a hint says which engine sent it, and nothing else.
func isID(payload string) bool {
	_, err := driver.ParseID(payload)
	return err == nil
}

// statementsOf notes what is sent, in order.
type statementsOf struct {
	mu  sync.Mutex
	all []string
}

func (s *statementsOf) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, data.SQL)
	return ctx
}

func (s *statementsOf) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestHintIsSentAfterTheCommit: also where the transaction is Consign's own.
func TestHintIsSentAfterTheCommit(t *testing.T) {
	leavesNothing(t)
	var sent statementsOf
	d := open(t, func(c *pgxpool.Config) { c.ConnConfig.Tracer = &sent })
	o, err := consign.New(d.Store, &consign.Options{AutoDispatch: true})
	if err != nil {
		t.Fatal(err)
	}
	conn := d.direct(t)
	sent.all = nil
	if _, err := o.EnqueueNow(t.Context(), consign.Message{Channel: "mail", Payload: map[string]any{}}); err != nil {
		t.Fatal(err)
	}
	if payload := heard(t, conn); !isID(payload) {
		t.Errorf("a hint carries %q", payload)
	}
	sent.mu.Lock()
	defer sent.mu.Unlock()
	commit, hint := slices.Index(sent.all, "commit"), slices.Index(sent.all, notifySQL)
	if commit < 0 || hint != len(sent.all)-1 || hint < commit {
		t.Errorf("sent in this order: %q", sent.all)
	}
}

// TestListenComesBack: a listener whose connection is ended by the server says so,
// makes a new one, and hears again.
func TestListenComesBack(t *testing.T) {
	leavesNothing(t)
	d := open(t)
	r := d.listenIn(t)
	for range 3 {
		if err := arrival(t, r.states); err != nil {
			t.Fatal(err)
		}
		if err := d.Notify(t.Context(), driver.ID{}); err != nil {
			t.Fatal(err)
		}
		arrival(t, r.hints)
		d.exec(t, "SELECT pg_terminate_backend($1)", d.listenerPID(t))
		if err := arrival(t, r.states); err == nil || strings.Contains(err.Error(), "did not arrive") {
			t.Fatalf("the loss of the connection is told as %v", err)
		}
	}
	if err := arrival(t, r.states); err != nil {
		t.Fatal(err)
	}
	r.end(t)
	if n := len(r.states); n != 0 {
		t.Errorf("%d more changes were told", n)
	}
}

// TestListenNoticesThatNothingArrives: a connection that has worked and goes silent
// without an error is given up for a new one. Here the server's process stops.
func TestListenNoticesThatNothingArrives(t *testing.T) {
	pgtest.TCP(t) // the server must be this test's own
	leavesNothing(t)
	d := open(t)
	d.hear.probe, d.hear.silence = 50*time.Millisecond, 5*time.Second // no machine is so slow
	r := d.listenIn(t)
	if err := arrival(t, r.states); err != nil {
		t.Fatal(err)
	}
	pid := d.listenerPID(t)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(pid, syscall.SIGCONT)
	if err := arrival(t, r.states); !errors.Is(err, errSilent) {
		t.Errorf("silence is told as %v", err)
	}
	if err := arrival(t, r.states); err != nil {
		t.Fatal(err)
	}
	if err := d.Notify(t.Context(), driver.ID{}); err != nil {
		t.Fatal(err)
	}
	arrival(t, r.hints)
	r.end(t)
}

// TestListenProbesAgainAndAgain: while nothing is heard, the listener makes sure
// that it would hear. Its probes wake nobody.
func TestListenProbesAgainAndAgain(t *testing.T) {
	leavesNothing(t)
	d := open(t)
	d.hear.probe = 10 * time.Millisecond
	conn := d.direct(t)
	r := d.listenIn(t)
	tokens := map[string]bool{}
	for range 5 {
		tokens[heard(t, conn)] = true
	}
	if len(tokens) != 5 || tokens[""] {
		t.Errorf("the probes are %v", tokens)
	}
	r.end(t)
	if len(r.hints) != 0 {
		t.Errorf("%d hints came of probes", len(r.hints))
	}
}

// TestListenIsPatientWithABusyPool: where the pool has no connection to spare, that
// says nothing about LISTEN, and hints are heard meanwhile.
func TestListenIsPatientWithABusyPool(t *testing.T) {
	leavesNothing(t)
	d := open(t)
	full, err := New(pgtest.Pool(t, connections(1)), &Options{Schema: d.schema})
	if err != nil {
		t.Fatal(err)
	}
	e := full.bound.engine
	e.hear.silence = 2 * time.Second
	conn, err := e.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	r := e.listenIn(t)
	for one[int](t, d, "SELECT count(*) FROM pg_stat_activity WHERE query = $1 AND state = 'idle'", `LISTEN "`+d.channel()+`"`) == 0 {
		time.Sleep(time.Millisecond) // asked again, not hoped for
	}
	for range 10 {
		if err := d.Notify(t.Context(), driver.ID{}); err != nil {
			t.Fatal(err)
		}
		arrival(t, r.hints)
		time.Sleep(e.hear.silence / 5) // all in all several probes that are not sent
	}
	select {
	case err := <-r.states:
		t.Errorf("told %v", err)
	case err := <-r.ended:
		t.Errorf("ended with %v", err)
	default:
	}
	conn.Release()
	if err := arrival(t, r.states); err != nil {
		t.Error(err)
	}
	r.end(t)
}

func TestListenEndsWithItsPool(t *testing.T) {
	leavesNothing(t)
	d := open(t)
	d.pool.Close()
	if err := arrival(t, d.listenIn(t).ended); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("ended with %v", err)
	}
}

// TestWakeChannelsFit: the name is within PostgreSQL's limit for every schema, and
// no two schemas share one.
func TestWakeChannelsFit(t *testing.T) {
	seen := map[string]string{}
	for _, schema := range []string{
		"consign", "a", strings.Repeat("a", 54), strings.Repeat("a", 55), strings.Repeat("a", 56), strings.Repeat("a", 63), strings.Repeat("a", 62) + "b",
	} {
		name := (&engine{schema: schema}).channel()
		if len(name) > 63 || seen[name] != "" {
			t.Errorf("channel %q of %q and %q", name, schema, seen[name])
		}
		seen[name] = schema
	}
	if (&engine{schema: "consign"}).channel() != "consign:consign" {
		t.Error("the channel's name has changed: programs of two versions would not hear each other")
	}
}

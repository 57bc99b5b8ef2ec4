//go:build unix

package dispatchtest

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/consign-go/consign/internal/dispatch"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// programVariable has a process of this test binary be a worker program; its value
// is a program as JSON.
const programVariable = "CONSIGN_DISPATCH_PROGRAM"

// program is what a worker program needs to know.
type program struct {
	Address  address
	Name     string
	Receiver string // host and port
	Kinds    []kind
	Policy   lifecycle.Policy
	Trouble  trouble
	Wait     time.Duration // between two attempts. Default: 100 ms
	Patience time.Duration // with a call of the database. Default: 10 s
	Grace    time.Duration // of a stop. Default: 10 s
	Replay   bool          // at the end, make every write that was ever made once more
	Signals  bool          // end by a signal, as the documentation of consign's Serve advises
	Deaf     bool          // send requests without heeding the effect's context
	Clock    string        // how its wall clock is wrong, in a binary that can have it so
	Narrow   int           // be unable to write to files until so many calls have failed
	Lock     time.Duration // do not work at all: hold SQLite's write lock that long, again and again
}

// Points of an attempt at which a program can be in trouble.
const (
	atClaimed  = "claimed, not started"
	atStarting = "before the start is written"
	atStarted  = "started, before the call"
	atCalled   = "called, nothing sent yet"
	atSending  = "in the middle of the request"
	atSent     = "request sent, no answer read"
	atActed    = "the far side has acted, before the outcome is written"
	atSettled  = "outcome written"
)

// trouble befalls a program when it has come to a point with all of some
// deliveries; each waits there for the others, or panics by itself.
type trouble struct {
	Point string
	Refs  map[string]int // and the how manyth time it comes there, from 1
	Sig   syscall.Signal // SIGKILL or SIGSTOP; 0: a panic in the code that delivers
}

// told is what a program tells at its orderly end.
type told struct {
	Fences   int   // what the engine observed
	Replayed int   // writes made once more
	Held     int   // and accepted: none may be
	Errors   int   // calls of the store that failed
	Wall     int64 // its wall clock at its end, in milliseconds since 1970
	Locks    int
}

// toldUp is said once a program begins to work.
const toldUp = "at work"

// toldStopping is said once the next signal has its usual effect.
const toldStopping = "the next signal ends it at once"

func playProgram(raw string) error {
	var p program
	if err := json.Unmarshal([]byte(raw), &p); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if p.Signals {
		ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
		context.AfterFunc(ctx, func() {
			stop()
			fmt.Println(toldStopping)
		})
		_, err := p.play(ctx)
		return err
	}
	go func() { // until the parent lets go, or is gone
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	answer, err := p.play(ctx)
	if err != nil {
		return err
	}
	answer.Wall = time.Now().UnixMilli()
	return json.NewEncoder(os.Stdout).Encode(answer)
}

func (p *program) play(ctx context.Context) (out told, err error) {
	if p.Lock > 0 {
		out.Locks, err = p.lock(ctx)
		return out, err
	}
	s, err := p.Address.open()
	if err != nil {
		return out, err
	}
	defer s.close()
	w := &watched{Driver: s.Driver, trouble: p.Trouble, over: make(chan struct{})}
	fmt.Println(toldUp)
	e := dispatch.New(p.config(w, func(o dispatch.Observation) {
		w.mu.Lock()
		defer w.mu.Unlock()
		switch o.Event {
		case "fence":
			out.Fences++
		case "error":
			out.Errors++
		}
	}))
	if p.Narrow > 0 {
		ended := make(chan error, 1)
		go func() {
			ended <- narrow(ctx, func() bool {
				w.mu.Lock()
				defer w.mu.Unlock()
				return out.Errors >= p.Narrow
			})
		}()
		defer func() { err = errors.Join(err, <-ended) }()
	}
	if err := e.Serve(ctx); err != nil {
		return out, err
	}
	if p.Replay {
		for _, ts := range w.writes {
			held, err := s.Apply(context.Background(), ts)
			if err != nil {
				return out, err
			}
			out.Replayed++
			for _, h := range held {
				if h {
					out.Held++
				}
			}
		}
	}
	return out, nil
}

// toldWide is said once a program can write again.
const toldWide = "wide again"

// narrow keeps this process from writing behind the first page of any file, until
// it is enough: a write then fails as one to a broken disk does, not as one to a
// full one.
func narrow(ctx context.Context, enough func() bool) error {
	signal.Ignore(syscall.SIGXFSZ)
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		return err
	}
	less := was
	less.Cur = 4096
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &less); err != nil {
		return err
	}
	for !enough() && ctx.Err() == nil {
		time.Sleep(5 * time.Millisecond)
	}
	err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was)
	fmt.Println(toldWide)
	return err
}

// config is an engine of this program on a store.
func (p *program) config(s driver.Driver, observe func(dispatch.Observation)) dispatch.Config {
	c := dispatch.Config{
		Store: s, Policy: p.Policy, Program: p.Name, Workers: 16, Grace: 10 * time.Second,
		Poll: 50 * time.Millisecond, Sweep: 200 * time.Millisecond, Patience: 10 * time.Second, Observe: observe,
	}
	if p.Patience > 0 {
		c.Patience = p.Patience
	}
	if p.Grace > 0 {
		c.Grace = p.Grace
	}
	if len(p.Trouble.Refs) > 1 && p.Trouble.Sig != 0 {
		c.Batch, c.Lanes = 1, 64 // so that deliveries do not wait for one that stands at the point
	}
	point := func(driver.ID, string) {}
	if w, ok := s.(*watched); ok {
		point = w.at
	}
	for _, k := range p.Kinds {
		s := k.served(&sender{to: p.Receiver, name: p.Name, deaf: p.Deaf, at: point})
		if p.Wait > 0 {
			s.Schedule.Waits = []time.Duration{p.Wait}
		}
		c.Served = append(c.Served, s)
	}
	return c
}

// served is kind k with the receiver as its far side.
func (k kind) served(s *sender) *dispatch.Served {
	out := &dispatch.Served{
		Profile: k.Profile, Kind: k.Name, Contract: k.Contract, Fingerprint: k.fingerprint(),
		Schedule: dispatch.Schedule{Waits: []time.Duration{100 * time.Millisecond}},
	}
	if k.Profile == lifecycle.Work {
		out.Version = "1"
	}
	out.Deliver = func(ctx context.Context, t *dispatch.Task) error {
		s.at(t.Intent.Ref, atClaimed)
		return t.Effect(ctx, t.Intent.Digest, func(ctx context.Context, a dispatch.Attempt) error {
			return s.send(ctx, t.Intent.Ref, t.Intent.Payload, t.Intent.Digest, a)
		})
	}
	return out
}

// sender makes requests over a socket of its own each, byte by byte in its hands.
type sender struct {
	to, name string
	deaf     bool
	at       func(ref driver.ID, point string)
}

func (s *sender) send(ctx context.Context, ref driver.ID, body []byte, digest lifecycle.Digest, a dispatch.Attempt) error {
	if s.deaf {
		ctx = context.WithoutCancel(ctx)
	}
	s.at(ref, atCalled)
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.to)
	if err != nil {
		return &dispatch.Definite{Event: lifecycle.EvNotSent, Err: err}
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		conn.SetDeadline(deadline)
	}
	r, err := http.NewRequest(http.MethodPost, "http://"+s.to+"/", bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Close = true
	r.Header.Set("Key", hex.EncodeToString(a.Key[:]))
	r.Header.Set("Request-Digest", hex.EncodeToString(digest[:]))
	r.Header.Set("Number", strconv.Itoa(a.Number))
	r.Header.Set("Generation", strconv.FormatInt(a.Generation, 10))
	r.Header.Set("Worker", s.name+" "+strconv.Itoa(os.Getpid()))
	var request bytes.Buffer
	if err := r.Write(&request); err != nil {
		return err
	}
	half := request.Len() - len(body)/2
	if _, err := conn.Write(request.Bytes()[:half]); err != nil {
		return err
	}
	s.at(ref, atSending)
	if _, err := conn.Write(request.Bytes()[half:]); err != nil {
		return err
	}
	s.at(ref, atSent)
	answer, err := http.ReadResponse(bufio.NewReader(conn), r)
	if err != nil {
		return err
	}
	s.at(ref, atActed)
	switch answer.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusServiceUnavailable:
		return &dispatch.Definite{Event: lifecycle.EvRefused, HTTP: answer.StatusCode, Err: errors.New("busy")}
	}
	return fmt.Errorf("status %d", answer.StatusCode)
}

// watched is a store that knows which point of which delivery a call is.
type watched struct {
	driver.Driver
	trouble trouble

	gate   sync.RWMutex // held for writing: no call is under way
	mu     sync.Mutex
	passed int
	over   chan struct{} // closed when the trouble is
	writes [][]lifecycle.Transition
}

// at is called whenever a delivery passes a point.
func (w *watched) at(ref driver.ID, point string) {
	if point != w.trouble.Point {
		return
	}
	w.mu.Lock()
	if w.trouble.Refs[name(ref)] == 0 {
		w.mu.Unlock()
		return
	}
	w.trouble.Refs[name(ref)]--
	now := w.trouble.Refs[name(ref)] == 0
	if now {
		w.passed++
	}
	last := w.passed == len(w.trouble.Refs)
	w.mu.Unlock()
	switch {
	case !now:
		return
	case w.trouble.Sig == 0:
		panic("at " + point)
	case !last:
		<-w.over
		return
	case w.trouble.Sig == syscall.SIGSTOP:
		// Stopped in the middle of a transaction, this process would hold its locks
		// until it is let go, and nobody else could do anything: that would show
		// the database at work, not the fence.
		w.gate.Lock()
		defer w.gate.Unlock()
	}
	resumed := make(chan os.Signal, 1)
	signal.Notify(resumed, syscall.SIGCONT)
	defer signal.Stop(resumed)
	syscall.Kill(os.Getpid(), w.trouble.Sig)
	// The signal may take effect a while after the call. Only SIGCONT tells that it
	// has; until then no call may begin.
	<-resumed
	close(w.over)
}

func (w *watched) Claim(ctx context.Context, r driver.ClaimRequest) ([]driver.Claimed, error) {
	w.gate.RLock()
	defer w.gate.RUnlock()
	return w.Driver.Claim(ctx, r)
}

// starting reports whether a write is a start, and ending whether it is the
// outcome of an attempt.
func starting(t *lifecycle.Transition) bool {
	return t.Set.Started && t.Set.Status == lifecycle.Delivering
}

func ending(t *lifecycle.Transition) bool {
	return t.Fence.Status == lifecycle.Delivering && t.Set.Generation == t.Fence.Generation && !t.Set.InFlight
}

// sweeping reports whether a write ends what nobody has in hand any more.
func sweeping(t *lifecycle.Transition) bool {
	return t.Set.Generation > t.Fence.Generation && t.Set.Owner == lifecycle.Token{}
}

func (w *watched) Apply(ctx context.Context, ts []lifecycle.Transition) ([]bool, error) {
	w.mu.Lock()
	w.writes = append(w.writes, append([]lifecycle.Transition(nil), ts...))
	w.mu.Unlock()
	for i := range ts {
		switch {
		case starting(&ts[i]):
			w.at(ts[i].Ref, atStarting)
		case sweeping(&ts[i]):
			w.at(ts[i].Ref, atSweeping)
		}
	}
	w.gate.RLock()
	held, err := w.Driver.Apply(ctx, ts)
	w.gate.RUnlock()
	for i := range ts {
		switch {
		case err != nil || !held[i]:
		case starting(&ts[i]):
			w.at(ts[i].Ref, atStarted)
		case ending(&ts[i]):
			w.at(ts[i].Ref, atSettled)
		case sweeping(&ts[i]):
			w.at(ts[i].Ref, atSwept)
		}
	}
	return held, err
}

func (w *watched) Overdue(ctx context.Context, r driver.OverdueRequest) ([]driver.Overdue, driver.Cursor, error) {
	w.gate.RLock()
	defer w.gate.RUnlock()
	return w.Driver.Overdue(ctx, r)
}

func (w *watched) Load(ctx context.Context, refs []driver.ID) ([]driver.Record, error) {
	w.gate.RLock()
	defer w.gate.RUnlock()
	return w.Driver.Load(ctx, refs)
}

func (w *watched) Routes(ctx context.Context) ([]driver.Route, error) {
	w.gate.RLock()
	defer w.gate.RUnlock()
	return w.Driver.Routes(ctx)
}

// lock holds the write lock of an SQLite file, lets everybody else in for as long,
// and so on until ctx ends.
func (p *program) lock(ctx context.Context) (locks int, err error) {
	db, err := sql.Open("sqlite", "file:"+p.Address.File+"?_pragma=busy_timeout(300000)")
	if err != nil {
		return 0, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for ctx.Err() == nil {
		if _, err := db.Exec("BEGIN IMMEDIATE"); err != nil {
			return locks, err
		}
		locks++
		time.Sleep(p.Lock)
		if _, err := db.Exec("ROLLBACK"); err != nil {
			return locks, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(p.Lock):
		}
	}
	return locks, nil
}

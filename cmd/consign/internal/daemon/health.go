package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/cli"
	"github.com/consign-go/consign/cmd/consign/internal/config"
)

// health answers for the daemon. It is asked often and by many, and asks the
// database once a second at most.
type health struct {
	program atomic.Pointer[cli.Program]
	serving atomic.Bool

	mu    sync.Mutex
	asked time.Time
	err   error

	since atomic.Int64 // when calls of the database began to fail, with no write done since; 0: they do not
	last  atomic.Int64 // when one failed last; both in nanoseconds
}

// How patient the health of a database is asked for.
const (
	healthAge     = time.Second
	healthTimeout = 2 * time.Second

	// failing is how long calls have to fail: one that fails alone is tried again.
	failing = 10 * time.Second
	// calm is how long after the last failure it is over, where there is nothing else
	// to write than the sign of life that the engine gives every 12 s.
	calm = 30 * time.Second
)

var (
	errNotServing = errors.New("not serving")
	errDatabase   = errors.New("the database does not answer")
	errFailing    = errors.New("the database refuses what is to be written")
)

// observe notes whether what the engine writes is taken: a database can answer and
// have no room left.
func (h *health) observe(o consign.Observation) {
	switch o.Event {
	case "error":
		if !o.Ref.IsZero() {
			return // of one delivery, and not of the database
		}
		now := time.Now().UnixNano()
		if last := h.last.Swap(now); now-last > int64(calm) {
			h.since.Store(0)
		}
		h.since.CompareAndSwap(0, now)
	case "claim", "start", "settle", "sweep":
		if h.since.Load() != 0 {
			h.since.Store(0)
		}
	}
}

// writes returns nil unless calls of the database have failed for a while.
func (h *health) writes() error {
	since, now := h.since.Load(), time.Now().UnixNano()
	if since != 0 && h.last.Load()-since >= int64(failing) && now-h.last.Load() <= int64(calm) {
		return errFailing
	}
	return nil
}

// ready returns nil if the daemon delivers and its database answers and takes what is
// written.
func (h *health) ready(ctx context.Context) error {
	if !h.serving.Load() {
		return errNotServing
	}
	if err := h.writes(); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.asked.IsZero() && time.Since(h.asked) < healthAge {
		return h.err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healthTimeout)
	defer cancel()
	h.err = nil
	if _, err := h.program.Load().Now(ctx); err != nil {
		h.err = errDatabase // its own text may name hosts and users
	}
	h.asked = time.Now()
	return h.err
}

// handler is what is behind the daemon's address.
func (d *Daemon) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := d.health.ready(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.Handle("GET /metrics", d.metrics.Handler())
	if d.console != nil {
		mux.Handle(config.ConsolePath+"/", http.StripPrefix(config.ConsolePath, d.console))
		mux.Handle("GET /{$}", http.RedirectHandler(config.ConsolePath+"/", http.StatusFound))
	}
	return mux
}

// open serves the address until the returned function is called, which is after the
// outbox has drained: while it does, health and metrics are wanted most.
func (d *Daemon) open(ctx context.Context, l net.Listener) (stop func()) {
	if l == nil {
		return func() {}
	}
	if a, ok := l.Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() {
		d.Log.Warn("health and metrics can be reached from other machines", "address", l.Addr().String())
	}
	s := &http.Server{
		Handler: d.handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(d.Log.Handler(), slog.LevelDebug),
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := s.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
			d.Log.Error("the address is no longer served", "error", err)
		}
	}()
	d.Log.Info("listening", "address", l.Addr().String())
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if s.Shutdown(ctx) != nil {
			s.Close()
		}
		<-ended
	}
}

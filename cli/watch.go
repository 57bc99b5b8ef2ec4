package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// watcher tells a person who watches that a command is still at work: from its
// second second on, on one line that is wiped at the end. Where the stream is no
// terminal it says nothing at all.
type watcher struct {
	out  io.Writer
	stop func()

	mu    sync.Mutex
	what  string
	shown bool // the line is there
}

// watch begins to watch for a person at the end of out.
func watch(out io.Writer) *watcher {
	w := &watcher{out: out, stop: func() {}}
	if Terminal(out) {
		w.begin()
	}
	return w
}

// begin starts the line; stop waits until it is wiped.
func (w *watcher) begin() {
	stop, ended := make(chan struct{}), make(chan struct{})
	w.stop = sync.OnceFunc(func() { close(stop); <-ended })
	go func() {
		defer close(ended)
		began := time.Now()
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				w.say("")
				return
			case <-tick.C:
				w.show(time.Since(began))
			}
		}
	}()
}

// show writes the line anew.
func (w *watcher) show(since time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.what != "" {
		w.shown = true
		fmt.Fprintf(w.out, "\r\x1b[K%s, %d s", w.what, int(since/time.Second))
	}
}

// say changes what the line says; nothing wipes it, so that a result can take its
// place.
func (w *watcher) say(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.what = what; what == "" && w.shown {
		w.shown = false
		fmt.Fprint(w.out, "\r\x1b[K")
	}
}

type watchKey struct{}

// progress says what the command is doing at the moment; "" ends the line.
func progress(ctx context.Context, format string, args ...any) {
	if w, ok := ctx.Value(watchKey{}).(*watcher); ok {
		w.say(fmt.Sprintf(format, args...))
	}
}

// Terminal reports whether a person reads what is written to out.
func Terminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && f.Name() != os.DevNull
}

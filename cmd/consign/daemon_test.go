package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience keeps a test from waiting for ever for what must come.
const patience = 2 * time.Minute

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if holds() {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// daemon is a running "consign serve".
type daemon struct {
	t       *testing.T
	cmd     *exec.Cmd
	address string

	mu    sync.Mutex
	log   []string
	ended chan struct{}
}

// serve starts a daemon and waits until it serves. It is killed at the latest when
// the test ends.
func (p *place) serve(t *testing.T, args ...string) *daemon {
	t.Helper()
	return p.serveBy(t, func(*exec.Cmd) {}, args...)
}

// serveBy is serve with a process that is started otherwise.
func (p *place) serveBy(t *testing.T, change func(*exec.Cmd), args ...string) *daemon {
	t.Helper()
	d := &daemon{t: t, ended: make(chan struct{})}
	d.cmd = p.command(append([]string{"serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--log-level", "debug"}, args...)...)
	change(d.cmd)
	stderr, err := d.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(d.ended)
		for in := bufio.NewScanner(stderr); in.Scan(); {
			d.mu.Lock()
			d.log = append(d.log, in.Text())
			d.mu.Unlock()
		}
		d.cmd.Wait()
	}()
	t.Cleanup(func() {
		d.cmd.Process.Kill()
		<-d.ended
		if t.Failed() {
			t.Logf("the daemon's log:\n%s", d.text())
		}
	})
	d.await("serving")
	d.address = "http://" + d.line("listening")["address"].(string)
	return d
}

func (d *daemon) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.log, "\n")
}

// line is the first line of the log with a message; nil: there is none.
func (d *daemon) line(msg string) map[string]any {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, text := range d.log {
		var line map[string]any
		if json.Unmarshal([]byte(text), &line) == nil && strings.HasPrefix(fmt.Sprint(line["msg"]), msg) {
			return line
		}
	}
	return nil
}

// await waits for a line of the log.
func (d *daemon) await(msg string) {
	d.t.Helper()
	eventually(d.t, "log: "+msg, func() bool {
		select {
		case <-d.ended:
			d.t.Fatalf("the daemon ended:\n%s", d.text())
		default:
		}
		return d.line(msg) != nil
	})
}

func (d *daemon) signal(s syscall.Signal) {
	d.t.Helper()
	if err := d.cmd.Process.Signal(s); err != nil {
		d.t.Fatal(err)
	}
}

// end waits until the process is gone.
func (d *daemon) end() *syscall.WaitStatus {
	d.t.Helper()
	select {
	case <-d.ended:
	case <-time.After(patience):
		d.t.Fatalf("the daemon did not end:\n%s", d.text())
	}
	status := d.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return &status
}

// stop asks for a graceful end and wants one.
func (d *daemon) stop() {
	d.t.Helper()
	d.signal(syscall.SIGTERM)
	if s := d.end(); !s.Exited() || s.ExitStatus() != 0 {
		d.t.Errorf("it ended with %v:\n%s", s, d.text())
	}
}

// get asks the daemon's address.
func (d *daemon) get(path string) (int, string) {
	d.t.Helper()
	resp, err := http.Get(d.address + path)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// request is what arrived at a receiver.
type request struct {
	Key, Body string
	Header    http.Header
}

// receiver is the far side, on a real socket.
type receiver struct {
	url  string
	mu   sync.Mutex
	got  []request
	hold chan struct{} // if set, answers wait until it is closed
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.got = append(r.got, request{req.Header.Get("Webhook-Id"), string(body), req.Header})
		hold := r.hold
		r.mu.Unlock()
		if hold != nil {
			select {
			case <-hold:
			case <-req.Context().Done():
			}
		}
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() { r.release() })
	r.url = s.URL + "/hook"
	return r
}

// holding makes answers wait from now on.
func (r *receiver) holding() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hold = make(chan struct{})
}

// release lets all answers go.
func (r *receiver) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hold != nil {
		close(r.hold)
		r.hold = nil
	}
}

func (r *receiver) requests() []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]request(nil), r.got...)
}

// times is how often the receiver was reached under a key.
func (r *receiver) times(key string) (n int) {
	for _, got := range r.requests() {
		if got.Key == key {
			n++
		}
	}
	return n
}

// webhook declares a channel to the receiver on the command line.
func (r *receiver) webhook(name, options string) string {
	return name + "=" + r.url + ",plaintext,allow=127.0.0.0/8" + options
}

// status is what show says of a ref.
func (p *place) status(t *testing.T, ref string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(p.must(t, "show", ref, "--json")), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// becomes waits until a ref has a status.
func (p *place) becomes(t *testing.T, ref, status string) {
	t.Helper()
	eventually(t, ref+" is "+status, func() bool { return p.status(t, ref)["status"] == status })
}

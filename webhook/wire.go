package webhook

import (
	"bufio"
	"errors"
	"net"
	"sync"
	"time"
)

// wire is one connection to a receiver, by one exchange at a time.
type wire struct {
	tcp     net.Conn // the socket
	counted *counted // over it, under the receiver's TLS
	conn    net.Conn // what requests are written to
	limit   *limited // under the reader of answers
	answers *bufio.Reader
	home    string // where an idle one is kept
	reused  bool
	closing *time.Timer // of an idle one

	mu          sync.Mutex
	interrupted bool
}

func newWire(tcp, tunnel net.Conn) *wire { return &wire{tcp: tcp, counted: &counted{Conn: tunnel}} }

// over says what requests are written to: the counted connection, or TLS over it.
func (w *wire) over(c net.Conn) {
	w.conn, w.limit = c, &limited{Conn: c}
	w.answers = bufio.NewReader(w.limit)
}

// counted counts the bytes that the connection took. It is the evidence for "not
// sent": traces of a client tell what was meant to happen, this what did.
type counted struct {
	net.Conn
	n int64
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.n += int64(n)
	return n, err
}

// errHeaderLimit: the answer's header section is larger than Options.MaxHeader.
var errHeaderLimit = errors.New("the answer's header section is over its limit")

// limited reads at most left bytes, so that neither endless headers nor endless
// interim answers are read for long.
type limited struct {
	net.Conn
	left int
	err  error // the newest, until it is reset
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		l.err = errHeaderLimit
		return 0, l.err
	}
	n, err := l.Conn.Read(p[:min(len(p), l.left)])
	l.left -= n
	l.err = err
	return n, err
}

// longAgo is a deadline that ends what waits.
var longAgo = time.Unix(1, 0)

// until sets when reads and writes end, unless the exchange was interrupted.
func (w *wire) until(t time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.interrupted {
		w.tcp.SetDeadline(t)
	}
}

// empty reports whether everything that was read from the socket has been used: TLS
// may hold a record that came together with the last answer, and what is in it would
// pass for the answer to the next request.
func (w *wire) empty() bool {
	w.until(longAgo)
	_, err := w.answers.Peek(1)
	w.until(time.Time{})
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// interrupt ends what waits, for good.
func (w *wire) interrupt() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.interrupted = true
	w.tcp.SetDeadline(longAgo)
}

// close ends the connection at once: TLS's own farewell would wait for the peer.
func (w *wire) close() { w.tcp.Close() }

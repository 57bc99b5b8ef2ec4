package fault

import (
	"net"
	"sync"
)

// link is one connection through a proxy.
type link struct {
	client, server net.Conn
	clientDone     chan struct{} // closed once the client has ended its side
	serverDone     chan struct{} // closed once the server has ended its own

	// spoil says what is passed on of what the server has said so far and was not
	// passed on yet, and whether the connection ends after it.
	spoil func(said []byte) (passed int, cut bool)

	// piece waits and says how many of n bytes are passed on next.
	piece func(n int) int

	mu    sync.Mutex
	held  *Held  // not nil while what the client sends is kept back
	kept  []byte // what was kept back
	gone  bool   // the client has ended its side
	noted bool   // the server was told so
}

func newLink(client, server net.Conn, spoil func([]byte) (int, bool), piece func(int) int) *link {
	return &link{
		client: client, server: server, clientDone: make(chan struct{}), serverDone: make(chan struct{}), spoil: spoil, piece: piece,
	}
}

// pass passes bytes on, piece by piece.
func (l *link) pass(to net.Conn, said []byte) error {
	for len(said) > 0 {
		n := l.piece(len(said))
		if _, err := to.Write(said[:n]); err != nil {
			return err
		}
		said = said[n:]
	}
	return nil
}

// hold begins to keep back what the client sends, unless that is so already.
func (l *link) hold(h *Held) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held != nil || l.gone {
		return false
	}
	l.held = h
	return true
}

// release passes on what was kept back.
func (l *link) release() (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.server.Write(l.kept)
	l.held, l.kept = nil, nil
	l.note()
	return n, err
}

// up passes on what the client sends.
func (l *link) up() {
	buffer := make([]byte, 64<<10)
	for {
		n, err := l.client.Read(buffer)
		l.mu.Lock()
		switch {
		case n == 0:
		case l.held != nil:
			l.kept = append(l.kept, buffer[:n]...)
			l.held.once.Do(func() { close(l.held.arrived) })
		default:
			if failed := l.pass(l.server, buffer[:n]); err == nil {
				err = failed
			}
		}
		if err != nil {
			l.gone = true
			l.note()
			l.mu.Unlock()
			close(l.clientDone)
			return
		}
		l.mu.Unlock()
	}
}

// note tells the server that no more will come, once it has got everything. The
// caller holds mu.
func (l *link) note() {
	if !l.gone || l.held != nil || l.noted {
		return
	}
	l.noted = true
	if c, ok := l.server.(interface{ CloseWrite() error }); ok {
		c.CloseWrite()
	}
}

// down passes on what the server says; when the client is gone, to nobody, for
// the server must not notice before its time.
func (l *link) down() {
	defer close(l.serverDone)
	buffer := make([]byte, 64<<10)
	var said []byte
	listening := true
	for {
		n, err := l.server.Read(buffer)
		said = append(said, buffer[:n]...)
		passed, cut := l.spoil(said)
		if err != nil && !cut {
			passed = len(said) // no more will be said
		}
		if passed > 0 && listening {
			listening = l.pass(l.client, said[:passed]) == nil
		}
		said = append(said[:0], said[passed:]...)
		if err != nil || cut {
			l.cut()
			return
		}
	}
}

// cut ends both sides.
func (l *link) cut() {
	l.client.Close()
	l.server.Close()
}

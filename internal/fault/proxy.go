package fault

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// Proxy stands between clients and a server and passes on what they say. It
// listens on 127.0.0.1; the server may be on any stream socket.
//
// Hold and Release make bytes late: what a client sends is really kept back, the
// client can give up and be gone, and the server gets the bytes afterwards, as a
// network may deliver them. CutAnswer loses an answer that was given, Cut everything
// that is under way, and Slow has everything trickle.
type Proxy struct {
	listener net.Listener
	running  sync.WaitGroup

	mu               sync.Mutex
	network, address string // of the server
	refusing         bool
	slow             pace

	links  map[*link]bool
	answer *Answer // to be cut; nil: none
	closed bool
}

// NewProxy returns a running proxy in front of the server at an address. Close it
// in the end.
func NewProxy(network, address string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: l, network: network, address: address, links: map[*link]bool{}}
	p.running.Go(p.accept)
	return p, nil
}

// Addr is where clients connect to: "127.0.0.1:port".
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close cuts all connections and waits until nothing runs any more.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	for l := range p.links {
		l.cut()
	}
	p.mu.Unlock()
	err := p.listener.Close()
	p.running.Wait()
	return err
}

// Cut ends every connection that is open, on both sides.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut()
	}
}

// Lead has connections that are opened from now on lead to the server at another
// address.
func (p *Proxy) Lead(network, address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.network, p.address = network, address
}

// Refuse has connections that are opened from now on ended at once, or no longer.
func (p *Proxy) Refuse(refusing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = refusing
}

// pace is how fast bytes are passed on: at most so many, each time after a pause.
type pace struct {
	bytes int
	pause time.Duration
}

// Slow has what is said from now on, on every connection and in both directions,
// passed on in pieces of at most so many bytes, each after a pause: the first one is
// latency, the others a narrow line. Slow(0, 0) is an ordinary network again.
func (p *Proxy) Slow(bytes int, pause time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slow = pace{bytes, pause}
}

// piece waits as Slow has it and returns how many of n bytes are passed on next.
func (p *Proxy) piece(n int) int {
	p.mu.Lock()
	slow := p.slow
	p.mu.Unlock()
	if slow.bytes <= 0 {
		return n
	}
	time.Sleep(slow.pause)
	return min(n, slow.bytes)
}

// dial connects to the server, nil: the client gets no connection.
func (p *Proxy) dial() net.Conn {
	p.mu.Lock()
	network, address, refusing := p.network, p.address, p.refusing
	p.mu.Unlock()
	if refusing {
		return nil
	}
	server, err := net.Dial(network, address)
	if err != nil {
		return nil
	}
	return server
}

// Hold keeps back from now on what clients send on the connections that are open.
// Connections opened later are not affected, so that a client which gives up can
// say so by another way.
func (p *Proxy) Hold() *Held {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := &Held{arrived: make(chan struct{}), gone: make(chan struct{})}
	for l := range p.links {
		if l.hold(h) {
			h.links = append(h.links, l)
		}
	}
	p.running.Go(func() {
		for _, l := range h.links {
			<-l.clientDone
		}
		close(h.gone)
	})
	return h
}

// Held is what Hold keeps back.
type Held struct {
	links   []*link
	once    sync.Once
	arrived chan struct{}
	gone    chan struct{}
}

// Arrived is closed once bytes are being kept back.
func (h *Held) Arrived() <-chan struct{} { return h.arrived }

// Gone is closed once every client that is kept back has ended its connection.
func (h *Held) Gone() <-chan struct{} { return h.gone }

// Release passes the bytes on. Where their client is gone, it waits until the
// server has taken all of them in and ended the connection: whatever they bring
// about has happened then. It returns how many bytes were late.
func (h *Held) Release(ctx context.Context) (late int, err error) {
	for _, l := range h.links {
		n, sendErr := l.release()
		late += n
		err = errors.Join(err, sendErr)
	}
	for _, l := range h.links {
		select {
		case <-l.clientDone:
		default:
			continue
		}
		select {
		case <-l.serverDone:
		case <-ctx.Done():
			return late, errors.Join(err, ctx.Err())
		}
	}
	return late, err
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		server := p.dial()
		if server == nil {
			client.Close()
			continue
		}
		l := newLink(client, server, p.spoil, p.piece)
		p.mu.Lock()
		if p.closed {
			l.cut()
		}
		p.links[l] = true
		p.mu.Unlock()
		p.running.Go(l.up)
		p.running.Go(func() {
			l.down()
			p.mu.Lock()
			delete(p.links, l)
			p.mu.Unlock()
		})
	}
}

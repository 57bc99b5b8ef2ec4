package fault

import "bytes"

// Answer is what a server says, and what is lost on its way.
type Answer struct {
	text []byte
	keep int
	lost chan struct{}
}

// CutAnswer loses the next answer that is text: of the first connection on which
// the server says it, everything before it and the first keep bytes of it are
// passed on, and then the connection ends, on both sides. What the server did
// before it said so is done.
//
// Until then an end of what was said that may be the beginning of text is kept back
// until more is said.
func (p *Proxy) CutAnswer(text []byte, keep int) *Answer {
	a := &Answer{text: text, keep: keep, lost: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = a
	return a
}

// Lost is closed once the answer was given and cut.
func (a *Answer) Lost() <-chan struct{} { return a.lost }

// spoil passes on what a server said, up to where an answer is to be cut.
func (p *Proxy) spoil(said []byte) (passed int, cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.answer
	if a == nil {
		return len(said), false
	}
	if at := bytes.Index(said, a.text); at >= 0 {
		p.answer = nil
		close(a.lost)
		return at + a.keep, true
	}
	for n := min(len(said), len(a.text)-1); n > 0; n-- {
		if bytes.HasSuffix(said, a.text[:n]) {
			return len(said) - n, false
		}
	}
	return len(said), false
}

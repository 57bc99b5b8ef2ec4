package fault

import (
	"bufio"
	"context"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server notes what it is told, and answers each line.
type server struct {
	listener net.Listener
	told     chan string // a line each; closed when a client has ended its side
}

func serve(t *testing.T) *server {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	s := &server{l, make(chan string, 16)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			lines := bufio.NewScanner(c)
			for lines.Scan() {
				s.told <- lines.Text()
				io.WriteString(c, "ok\n")
			}
			s.told <- "end"
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return s
}

func proxied(t *testing.T, s *server) (*Proxy, net.Conn, *bufio.Reader) {
	t.Helper()
	p, err := NewProxy("unix", s.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return p, c, bufio.NewReader(c)
}

func say(t *testing.T, c net.Conn, line string) {
	t.Helper()
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

func (s *server) hears(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-s.told:
		if got != want {
			t.Fatalf("the server heard %q, want %q", got, want)
		}
	case <-time.After(time.Minute):
		t.Fatalf("the server did not hear %q", want)
	}
}

func TestProxyPassesOnBothWays(t *testing.T) {
	s := serve(t)
	_, c, answers := proxied(t, s)
	for _, line := range []string{"one", "two"} {
		say(t, c, line)
		s.hears(t, line)
		if got, err := answers.ReadString('\n'); err != nil || got != "ok\n" {
			t.Fatalf("answer %q, %v", got, err)
		}
	}
	c.Close()
	s.hears(t, "end")
}

// TestHeldBytesArriveAfterTheirClientIsGone is what the proxy is for.
func TestHeldBytesArriveAfterTheirClientIsGone(t *testing.T) {
	s := serve(t)
	p, c, _ := proxied(t, s)
	say(t, c, "before")
	s.hears(t, "before")
	held := p.Hold()
	say(t, c, "late")
	<-held.Arrived()
	c.Close()
	<-held.Gone()
	select {
	case got := <-s.told:
		t.Fatalf("the server heard %q while it was held back", got)
	default:
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	n, err := held.Release(ctx)
	if err != nil || n != len("late\n") {
		t.Fatalf("%d bytes were late, %v", n, err)
	}
	for _, want := range []string{"late", "end"} {
		select { // no waiting: Release has seen to it
		case got := <-s.told:
			if got != want {
				t.Fatalf("the server heard %q, want %q", got, want)
			}
		default:
			t.Fatalf("released, and the server has not heard %q", want)
		}
	}
}

func TestHeldBytesArriveWhileTheirClientWaits(t *testing.T) {
	s := serve(t)
	p, c, answers := proxied(t, s)
	say(t, c, "before")
	s.hears(t, "before")
	answers.ReadString('\n')
	held := p.Hold()
	say(t, c, "late")
	<-held.Arrived()
	if _, err := held.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.hears(t, "late")
	if got, err := answers.ReadString('\n'); err != nil || got != "ok\n" {
		t.Fatalf("answer %q, %v", got, err)
	}
}

func TestCloseCutsEverything(t *testing.T) {
	s := serve(t)
	p, c, answers := proxied(t, s)
	say(t, c, "one")
	s.hears(t, "one")
	answers.ReadString('\n')
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := answers.ReadString('\n'); err == nil {
		t.Fatal("the connection outlived the proxy")
	}
	s.hears(t, "end")
}

// TestAnswerIsCutAfterAnyByte: what the server did is done, and the client gets as
// much of the answer as was said, even where the server says it in pieces.
func TestAnswerIsCutAfterAnyByte(t *testing.T) {
	for keep := range len("ok\n") {
		s := serve(t)
		p, c, answers := proxied(t, s)
		say(t, c, "before")
		s.hears(t, "before")
		if got, err := answers.ReadString('\n'); err != nil || got != "ok\n" {
			t.Fatalf("answer %q, %v", got, err)
		}
		cut := p.CutAnswer([]byte("ok\n"), keep)
		say(t, c, "lost")
		s.hears(t, "lost")
		<-cut.Lost()
		if got, err := io.ReadAll(answers); err != nil || string(got) != "ok\n"[:keep] {
			t.Errorf("of an answer cut after %d bytes came %q, %v", keep, got, err)
		}
		s.hears(t, "end")
	}
}

// TestBeginningOfAnAnswerIsNotPassedOnTooEarly: the pieces of an answer are put
// together before it is cut, and what only looked like it comes after all.
func TestBeginningOfAnAnswerIsNotPassedOnTooEarly(t *testing.T) {
	p := &Proxy{}
	cut := p.CutAnswer([]byte("COMMIT"), 2)
	said, got := "", ""
	for _, piece := range []string{"x C", "O", "CO", "MMI", "T!"} {
		said += piece
		n, ended := p.spoil([]byte(said))
		got, said = got+said[:n], said[n:]
		if ended != (piece == "T!") {
			t.Fatalf("ended %v after %q", ended, piece)
		}
	}
	<-cut.Lost()
	if got != "x COCO" {
		t.Errorf("%q was passed on", got)
	}
}

func TestCutEndsWhatIsOpenAndNothingElse(t *testing.T) {
	s := serve(t)
	p, c, answers := proxied(t, s)
	say(t, c, "one")
	s.hears(t, "one")
	answers.ReadString('\n')
	p.Cut()
	if _, err := answers.ReadString('\n'); err == nil {
		t.Fatal("the connection was not cut")
	}
	s.hears(t, "end")
	again, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	say(t, again, "two")
	s.hears(t, "two")
}

// What is said on a slow network comes whole, in order, and late, in both directions;
// afterwards the network is an ordinary one.
func TestSlowNetworkTrickles(t *testing.T) {
	s := serve(t)
	p, c, answers := proxied(t, s)
	const pause = 5 * time.Millisecond
	p.Slow(7, pause)
	line := strings.Repeat("0123456789", 20)
	began := time.Now()
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		t.Fatal(err)
	}
	if told := <-s.told; told != line {
		t.Errorf("the server was told %q", told)
	}
	if took, least := time.Since(began), pause*time.Duration(len(line)/7); took < least {
		t.Errorf("%d bytes took %s, want %s or more", len(line), took, least)
	}
	if answer, err := answers.ReadString('\n'); answer != "ok\n" || err != nil {
		t.Errorf("%q, %v", answer, err)
	}
	p.Slow(0, 0)
	long := strings.Repeat("x", 50_000)
	go io.WriteString(c, long+"\n")
	if told := <-s.told; told != long {
		t.Errorf("the server was told %d bytes", len(told))
	}
}

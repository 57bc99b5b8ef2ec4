package consign_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/migrate"
	"github.com/consign-go/consign/sqlite"
)

// pollerEnv has a process of this test binary serve the SQLite file that it names.
const pollerEnv = "CONSIGN_TEST_POLLER"

// poll is a program that serves a file and says what it delivers until its input
// ends.
func poll(t *testing.T, path string) {
	store, err := sqlite.New(openSQLite(t, path), nil)
	if err != nil {
		t.Fatal(err)
	}
	o, err := consign.New(store, &consign.Options{Channels: []consign.Channel{{
		Name: "mail", Deliver: func(_ context.Context, m consign.Message, _ consign.Attempt) error {
			fmt.Printf("\ntold %s\n", m.ID)
			return nil
		},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	if err := o.Serve(ctx); err != nil {
		t.Error(err)
	}
}

// On SQLite nothing tells another process of a commit; it delivers all the same,
// because it polls. Wake and AutoDispatch are no errors there.
func TestPollingAloneDeliversAcrossProcessesOnSQLite(t *testing.T) {
	if path := os.Getenv(pollerEnv); path != "" {
		poll(t, path)
		return
	}
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	path := filepath.Join(t.TempDir(), "host.db")
	store, err := sqlite.New(openSQLite(t, path), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrate.Up(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	o, err := consign.New(store, &consign.Options{AutoDispatch: true})
	if err != nil {
		t.Fatal(err)
	}
	told := startPoller(t, path)
	for i := range 20 {
		ref, err := o.EnqueueNow(t.Context(), consign.Message{Channel: "mail", Payload: map[string]any{"n": i}})
		if err := errors.Join(err, o.Wake(t.Context())); err != nil {
			t.Fatal(err)
		}
		select {
		case word := <-told:
			if word != ref.String() {
				t.Fatalf("the other process delivers %q, want %s", word, ref)
			}
		case <-time.After(patience):
			t.Fatalf("%s is not delivered", ref)
		}
	}
}

// startPoller starts poll as a process that ends with the test.
func startPoller(t *testing.T, path string) (told <-chan string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
	cmd.Env = append(os.Environ(), pollerEnv+"="+path)
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
	t.Cleanup(func() {
		in.Close()
		if err := <-ended; err != nil {
			t.Errorf("the other process: %v", err)
		}
	})
	return words
}

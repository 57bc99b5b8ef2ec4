package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/driver/memory"
	"github.com/consign-go/consign/internal/migration"
	"github.com/consign-go/consign/migrate"
	"github.com/consign-go/consign/operator"
)

// TestMountedInAProgram: a program's own outbox, with a channel that only it knows,
// under the commands.
func TestMountedInAProgram(t *testing.T) {
	sent := 0
	outbox, err := consign.New(memory.New(), &consign.Options{Channels: []consign.Channel{{
		Name: "own", Deliver: func(context.Context, consign.Message, consign.Attempt) error { sent++; return nil },
	}}})
	if err != nil {
		t.Fatal(err)
	}
	main := func(input string, args ...string) (string, string, int) {
		tree := Mount(outbox)
		tree.opt.Input = strings.NewReader(input)
		var out, errOut bytes.Buffer
		code := tree.Main(t.Context(), args, &out, &errOut)
		return out.String(), errOut.String(), code
	}
	out, said, code := main(`{"n":1}`, "enqueue", "--channel", "own", "--payload", "-")
	ref := strings.TrimSpace(out)
	if code != ExitDone || said != "" || len(ref) != 36 {
		t.Fatalf("enqueue: %d, %q, %q", code, out, said)
	}
	if out, said, code := main("", "drain"); code != ExitDone || out != ref+"  delivered\n" || said != "" || sent != 1 {
		t.Errorf("drain: %d, %q, %q, %d sent", code, out, said, sent)
	}
	if out, _, code := main("", "visit", ref); code != ExitDone || out != ref+"  delivered\n" {
		t.Errorf("visit: %d, %q", code, out)
	}
	if _, said, code := main("", "migrate", "up"); code != ExitFailed || !strings.Contains(said, "no migrations") {
		t.Errorf("migrate: %d, %q", code, said)
	}
	if _, said, code := main("", "serve", "--db", "x"); code != ExitUsage || !strings.Contains(said, "unknown flag: --db") {
		t.Errorf("a mounted command has a database: %d, %q", code, said)
	}
}

// TestEachErrorHasItsExitCode: a closed set, whatever an error is wrapped in.
func TestEachErrorHasItsExitCode(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
		next string
	}{
		{errors.New("x"), ExitFailed, "doctor"},
		{consign.ErrInvalid, ExitUsage, "help"},
		{consign.ErrNotFound, ExitNothing, "ref"},
		{consign.ErrConflict, ExitRefused, "ID"},
		{consign.ErrFenced, ExitRefused, "somebody else"},
		{consign.ErrNotPermitted, ExitRefused, "permitted"},
		{consign.ErrRevoked, ExitRefused, "permitted"},
		{consign.ErrSchema, ExitFailed, "migrate up"},
		{consign.ErrUnconfirmed, ExitFailed, "--id"},
		{operator.ErrChanged, ExitRefused, "again"},
		{operator.ErrRefused, ExitRefused, "show"},
		{migrate.ErrNewer, ExitRefused, "Update"},
		{migrate.ErrChanged, ExitRefused, "released"},
		{context.Canceled, ExitFailed, "interrupted"},
		{&Error{Code: ExitRefused, Err: errors.New("x"), Next: "Do it."}, ExitRefused, "Do it."},
		{usage("x"), ExitUsage, "help"},
	} {
		var out, errOut bytes.Buffer
		tree := New(Options{Open: func(context.Context, Need) (*Program, error) { return nil, fmt.Errorf("wrapped: %w", c.err) }})
		code := tree.Main(t.Context(), []string{"drain"}, &out, &errOut)
		lines := strings.Split(strings.TrimSuffix(errOut.String(), "\n"), "\n")
		if code != c.code || len(lines) != 2 || !strings.HasPrefix(lines[0], "consign: ") || !strings.Contains(lines[1], c.next) || out.Len() > 0 {
			t.Errorf("%v: exit code %d, %q", c.err, code, lines)
		}
	}
}

var quoted = regexp.MustCompile(`'[^']*'`)

// TestEveryCommandHasHelpWithAnExampleThatWorks: one worked example for each, of
// which the command, its arguments and its flags exist.
func TestEveryCommandHasHelpWithAnExampleThatWorks(t *testing.T) {
	tree := New(Options{Flags: func(f *pflag.FlagSet) { f.String("db", "", "") }})
	seen := 0
	for _, c := range everyCommand(tree.root) {
		if !c.HasParent() || c.Name() == "help" || c.Name() == "completion" || c.Parent().Name() == "completion" {
			continue
		}
		seen++
		if c.Short == "" || strings.HasSuffix(c.Short, ".") || strings.Contains(strings.TrimSpace(c.Example), "\n") {
			t.Errorf("%s: short %q, example %q", c.CommandPath(), c.Short, c.Example)
		}
		_, example, ok := strings.Cut("x "+c.Example, "consign ")
		example, _, _ = strings.Cut(example, " |")
		example, _, _ = strings.Cut(example, " >")
		found, rest, err := tree.root.Find(strings.Fields(quoted.ReplaceAllString(example, "text")))
		if !ok || err != nil || found != c && found.Parent() != c {
			t.Errorf("%s: the example %q is of %v, %v", c.CommandPath(), c.Example, found, err)
			continue
		}
		if err := found.ParseFlags(rest); err != nil {
			t.Errorf("%s: %v", c.CommandPath(), err)
		}
		if err := found.ValidateArgs(found.Flags().Args()); err != nil {
			t.Errorf("%s: %v", c.CommandPath(), err)
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" || settable(f) && !strings.Contains(f.Usage, variable(f.Name)) {
				t.Errorf("%s --%s: usage %q", c.CommandPath(), f.Name, f.Usage)
			}
		})
	}
	if seen < 20 {
		t.Errorf("only %d commands were seen", seen)
	}
}

// locked is a buffer that several goroutines use.
type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestProgressIsForPeopleAlone: where a person watches a line shows from the second
// second on, and is wiped; a pipe is told nothing.
func TestProgressIsForPeopleAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out locked
		w := &watcher{out: &out}
		w.begin()
		ctx := context.WithValue(t.Context(), watchKey{}, w)
		progress(ctx, "delivering")
		time.Sleep(900 * time.Millisecond)
		synctest.Wait()
		if s := out.String(); s != "" {
			t.Errorf("at once: %q", s)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		progress(ctx, "")
		if s := out.String(); !strings.HasSuffix(s, "\r\x1b[K") {
			t.Errorf("before a result: %q", s)
		}
		progress(ctx, "ending")
		time.Sleep(time.Second)
		w.stop()
		w.stop()
		if s := out.String(); !strings.Contains(s, "delivering, 2 s") || !strings.HasSuffix(s, "\r\x1b[K") {
			t.Errorf("after three seconds: %q", s)
		}
		quiet := watch(&out)
		before := out.String()
		progress(context.WithValue(t.Context(), watchKey{}, quiet), "delivering")
		time.Sleep(time.Minute)
		quiet.stop()
		if out.String() != before {
			t.Error("a pipe was told")
		}
	})
}

// TestCommandsOfTheHostTakeTheirPlace: by name.
func TestCommandsOfTheHostTakeTheirPlace(t *testing.T) {
	own := &cobra.Command{Use: "serve", RunE: func(cmd *cobra.Command, _ []string) error {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "mine")
		return err
	}}
	var out, errOut bytes.Buffer
	tree := New(Options{Name: "desk", Commands: []*cobra.Command{own}})
	if code := tree.Main(t.Context(), []string{"serve"}, &out, &errOut); code != ExitDone || out.String() != "mine\n" {
		t.Errorf("%d, %q, %q", code, out.String(), errOut.String())
	}
}

// clocked is an outbox whose clock is away from this machine's.
type clocked struct {
	outbox
	away time.Duration
}

func (c clocked) Now(context.Context) (time.Time, error) { return time.Now().Add(c.away), nil }

func TestDoctorComparesTheClocks(t *testing.T) {
	for _, c := range []struct {
		away    time.Duration
		want    string
		warning bool
	}{
		{0, "", false},
		{900 * time.Millisecond, "", false},
		{-30 * time.Second, "s ahead of the database's", true},
		{30 * time.Second, "s behind the database's", true},
		{2 * time.Minute, "s behind the database's", false},
	} {
		p := &Program{outbox: clocked{away: c.away}}
		found, err := p.clock(t.Context())
		if err != nil || (c.want == "") != (len(found) == 0) {
			t.Fatalf("%s: %v, %v", c.away, found, err)
		}
		if c.want != "" && (!strings.Contains(found[0].What, c.want) || found[0].Warning != c.warning || found[0].Fix == "") {
			t.Errorf("%s: %+v", c.away, found[0])
		}
	}
}

// stepped is a store whose tables are behind this program: a state that has to be
// made up while there is one step.
type stepped struct{ migration.Target }

func (s stepped) Migrations(driver.Key) migration.Target { return s }
func (stepped) Steps() []migration.Step {
	return []migration.Step{{Version: 1, Name: "consign", Checksum: "a"}, {Version: 2, Name: "next", Checksum: "b"}}
}
func (stepped) Applied(context.Context) ([]migration.Applied, error) {
	return []migration.Applied{{Version: 1, Name: "consign", Checksum: "a", At: time.Now()}}, nil
}

func TestDoctorFindsOldTables(t *testing.T) {
	p := &Program{store: stepped{}}
	found, err := p.schema(t.Context())
	if err != nil || len(found) != 1 || found[0].What != "the tables are old: 1 of 2 steps are not applied" {
		t.Errorf("%+v, %v", found, err)
	}
}

package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
	"github.com/consign-go/consign/migrate"
	"github.com/consign-go/consign/sqlite"
	"github.com/consign-go/consign/sqlite/internal/suite"
)

// The test binary runs itself as another process: a child does one thing to a file,
// says on its output how far it is, and goes on when it gets a line.

const childVariable = "CONSIGN_SQLITE_CHILD"

func TestMain(m *testing.M) {
	if what := os.Getenv(childVariable); what != "" {
		if err := childMain(what, os.Args[len(os.Args)-1]); err != nil {
			fmt.Println("fault:", err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

var commands = bufio.NewScanner(os.Stdin)

// meet tells the parent and waits until it says so.
func meet(word string) error {
	fmt.Println(word)
	if !commands.Scan() {
		return io.ErrUnexpectedEOF
	}
	return nil
}

func childMain(what, path string) error {
	ctx := context.Background()
	holding := false
	db, err := modernc.Hooked(modernc.DSN(path, 5000), func(query string, _ []sqldriver.NamedValue) error {
		if holding && query == "COMMIT" {
			return meet("holding")
		}
		return nil
	})
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	s, err := sqlite.New(db, nil)
	if err != nil {
		return err
	}
	switch what {
	case "migrate":
		if err := meet("ready"); err != nil {
			return err
		}
		steps, err := migrate.Up(ctx, s)
		fmt.Println("done", len(steps))
		return err
	case "claim":
		holding = true
		got, err := s.Driver(driver.Key{}).Claim(ctx, asking(6))
		for i := range got {
			fmt.Println(got[i].Intent.Ref)
		}
		return err
	case "lock":
		for _, query := range []string{"BEGIN IMMEDIATE", "CREATE TABLE half_done (x)"} {
			if _, err := db.Exec(query); err != nil {
				return err
			}
		}
		return meet("locked")
	}
	return fmt.Errorf("unknown child %q", what)
}

// process is a child, seen from the parent.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

func start(t *testing.T, what, path string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], path)
	cmd.Env = append(os.Environ(), childVariable+"="+what)
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
	p := &process{t: t, cmd: cmd, in: in, lines: bufio.NewScanner(out)}
	t.Cleanup(p.kill)
	return p
}

// expect reads the next line, which must be word.
func (p *process) expect(word string) {
	p.t.Helper()
	if !p.lines.Scan() || p.lines.Text() != word {
		p.t.Fatalf("the child says %q, want %q", p.lines.Text(), word)
	}
}

func (p *process) goOn() {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, "go on"); err != nil {
		p.t.Fatal(err)
	}
}

// rest reads what else the child says until it ends.
func (p *process) rest() []string {
	p.t.Helper()
	var lines []string
	for p.lines.Scan() {
		lines = append(lines, p.lines.Text())
	}
	if err := p.cmd.Wait(); err != nil {
		p.t.Fatalf("the child failed: %v, %q", err, lines)
	}
	return lines
}

// kill ends the child at once, without a word.
func (p *process) kill() {
	if p.cmd.ProcessState == nil {
		p.cmd.Process.Kill()
		p.cmd.Wait()
	}
}

// TestTwoProcessesClaimAtOnce: a process stops in the middle of its claim, before it
// commits. Until then its rows are as they were; another claim waits for it, and
// gets exactly what it left.
func TestTwoProcessesClaimAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "claim.db")
	tried := make(chan struct{}, 100)
	db := modernc.OpenHooked(t, path, 0, func(query string, _ []sqldriver.NamedValue) error {
		if strings.HasPrefix(query, "UPDATE consign_setting") {
			tried <- struct{}{}
		}
		return nil
	})
	b := suite.Migrated(t, db, "").Driver(driver.Key{})
	refs := store(t, b, messages(10)...)
	for len(tried) > 0 {
		<-tried
	}
	child := start(t, "claim", path)
	child.expect("holding")

	records, err := b.Load(t.Context(), refs)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if r.State.Generation != 0 {
			t.Errorf("%s is seen as claimed before the claim has committed", r.Intent.Ref)
		}
	}
	claimed := make(chan []driver.Claimed)
	go func() {
		got, err := b.Claim(context.WithoutCancel(t.Context()), asking(100))
		if err != nil {
			t.Error(err)
		}
		claimed <- got
	}()
	<-tried // it wants the lock that the child has
	select {
	case got := <-claimed:
		t.Fatalf("claimed %d in the middle of another claim", len(got))
	case <-time.After(50 * time.Millisecond): // a claim that did not wait would be done
	}
	child.goOn()
	theirs := child.rest()
	var ours []string
	for _, c := range <-claimed {
		if c.State.Generation != 1 {
			t.Errorf("generation %d", c.State.Generation)
		}
		ours = append(ours, c.Intent.Ref.String())
	}
	if len(theirs) != 6 || len(ours) != 4 {
		t.Errorf("the child got %d, this process %d, want 6 and 4", len(theirs), len(ours))
	}
	all := append(slices.Clone(theirs), ours...)
	slices.Sort(all)
	if all = slices.Compact(all); len(all) != 10 {
		t.Errorf("%d different ones were claimed of 10", len(all))
	}
}

// TestProcessDiesInTheMiddleOfItsClaim: nothing of it is left, and nobody waits for
// the dead.
func TestProcessDiesInTheMiddleOfItsClaim(t *testing.T) {
	path := filepath.Join(t.TempDir(), "claim.db")
	db := modernc.Open(t, path, 0)
	b := suite.Migrated(t, db, "").Driver(driver.Key{})
	refs := store(t, b, messages(10)...)
	child := start(t, "claim", path)
	child.expect("holding")
	child.kill()
	got := claim(t, b, asking(100))
	if len(got) != len(refs) {
		t.Errorf("claimed %d, want all %d", len(got), len(refs))
	}
	for _, c := range got {
		if c.State.Generation != 1 || c.State.Crashes != 0 {
			t.Errorf("state %+v", c.State)
		}
	}
}

func TestManyProcessesMigrateAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "migrate.db")
	var children []*process
	for range 6 {
		child := start(t, "migrate", path)
		child.expect("ready")
		children = append(children, child)
	}
	for _, child := range children {
		child.goOn()
	}
	did := 0
	for _, child := range children {
		if lines := child.rest(); len(lines) != 1 {
			t.Errorf("a child says %q", lines)
		} else if lines[0] == "done 1" {
			did++
		} else if lines[0] != "done 0" {
			t.Errorf("a child says %q", lines)
		}
	}
	if did != 1 {
		t.Errorf("%d processes did the work, want one", did)
	}
	db := modernc.Open(t, path, 1)
	s, err := sqlite.New(db, nil)
	if err != nil {
		t.Fatal(err)
	}
	up(t, s, 0)
	other, fresh := unmigrated(t)
	up(t, fresh, 1)
	if a, b := schemaOf(t, db), schemaOf(t, other); a != b {
		t.Errorf("the schema is\n%s\nwant\n%s", a, b)
	}
}

// TestLockedBeyondTheBudget: while another process has the write lock, each call
// that writes fails in time, says why, changes nothing and leaves the connection as
// it was; what only reads goes on.
func TestLockedBeyondTheBudget(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locked.db")
	const own = 2 * time.Minute // the connection's own busy timeout
	db, err := sql.Open(modernc.Driver, modernc.DSN(path, int(own.Milliseconds())))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	s := suite.Migrated(t, db, "")
	b := s.Driver(driver.Key{})
	refs := store(t, b, messages(10)...)
	claim(t, b, asking(5))
	cancel := decided(t, b, refs[9], lifecycle.EvCancel)
	before := dump(t, db)
	child := start(t, "lock", path)
	child.expect("locked")

	for name, call := range writes(b, cancel) {
		sqlite.SetBudget(s, 200*time.Millisecond)
		begun := time.Now()
		err := call(t.Context())
		if err == nil || !strings.Contains(err.Error(), "locked by another connection (waited ") {
			t.Errorf("%s: %v, want it to say that the database is locked", name, err)
		}
		if spent := time.Since(begun); spent > own/2 {
			t.Errorf("%s took %s", name, spent)
		}
		sqlite.SetBudget(s, own)
		ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if err := call(ctx); err == nil || ctx.Err() == nil || time.Since(begun) > own/2 {
			t.Errorf("%s, for 50 ms: %v", name, err)
		}
		stop()
		unchangedWith(t, db, own)
	}
	if got, err := b.Load(t.Context(), refs); err != nil || len(got) != 10 {
		t.Errorf("load under a foreign lock: %d, %v", len(got), err)
	}
	if err := b.View(t.Context(), func(tx *sql.Tx) error { _, err := tx.Exec("SELECT 1"); return err }); err != nil {
		t.Errorf("view under a foreign lock: %v", err)
	}
	child.goOn()
	child.rest()
	if after := dump(t, db); after != before {
		t.Errorf("rows changed:\n%s\nwant\n%s", after, before)
	}
	if got := claim(t, b, asking(100)); len(got) != 5 {
		t.Errorf("claimed %d after the lock, want 5", len(got))
	}
}

package postgres

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/pgtest"
)

// roleEnv has a process of this test binary be a worker in the test it is started
// for; its value is what the worker needs to know.
const roleEnv = "CONSIGN_POSTGRES_WORKER"

// worker is a process that claims once.
type worker struct {
	URL, Schema, Name string
	Limit             int
}

// told is what it tells.
type told struct {
	PID  int
	Refs []driver.ID
}

// run is the worker's side.
func (w worker) run(t *testing.T) {
	pool := pgtest.Pool(t, connections(1), func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["application_name"] = w.Name })
	s, err := New(pool, &Options{Schema: w.Schema})
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.bound.Claim(t.Context(), request("m:mail", w.Limit))
	if err != nil {
		t.Fatal(err)
	}
	report := told{PID: os.Getpid()}
	for _, c := range got {
		report.Refs = append(report.Refs, c.Intent.Ref)
	}
	raw, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("\ntold %s\n", raw)
}

// start starts the worker as a process. What it tells comes through the channel.
func (w worker) start(t *testing.T) <-chan told {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.count=1")
	cmd.Env = append(os.Environ(), roleEnv+"="+string(raw), "CONSIGN_TEST_POSTGRES="+w.URL)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	answer := make(chan told, 1)
	go func() {
		var report told
		text := ""
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if after, ok := strings.CutPrefix(lines.Text(), "told "); ok {
				if err := json.Unmarshal([]byte(after), &report); err != nil {
					t.Error(err)
				}
			}
			text += lines.Text() + "\n"
		}
		io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			t.Errorf("worker %s: %v\n%s", w.Name, err, text)
		}
		answer <- report
	}()
	return answer
}

// TestTwoProcessesClaimAtOnce: two processes meet in the middle of a claim. The
// first has locked its rows and is stopped by a trigger at the last of them; the
// second gets the other rows at once, and none is shared.
func TestTwoProcessesClaimAtOnce(t *testing.T) {
	if raw := os.Getenv(roleEnv); raw != "" {
		var w worker
		if err := json.Unmarshal([]byte(raw), &w); err != nil {
			t.Fatal(err)
		}
		w.run(t)
		return
	}
	d := open(t)
	var all []driver.ID
	for range 10 {
		n := message("mail", webhook, 200)
		d.insert(t, n)
		all = append(all, n.Ref)
	}
	d.exec(t, fmt.Sprintf(`
CREATE FUNCTION {s}stop() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF current_setting('application_name') = 'first' AND NEW.ref = '%s' THEN
        PERFORM pg_advisory_xact_lock_shared(%d);
    END IF;
    RETURN NEW; END $$;
CREATE TRIGGER stop BEFORE UPDATE ON {s}delivery FOR EACH ROW EXECUTE FUNCTION {s}stop()`, all[4], d.gateKey(t)))
	release := d.shut(t)
	w := worker{URL: pgtest.URL(t), Schema: d.schema, Name: "first", Limit: 5}
	first := w.start(t)
	d.untilBlocked(t, 1, "%")
	w.Name, w.Limit = "second", 10
	second := <-w.start(t) // while the first stands in the middle of its claim
	select {
	case <-first:
		t.Fatal("the first claim was not under way when the second one ran")
	default:
	}
	if n := one[int](t, d, "SELECT count(*) FROM {s}delivery WHERE status = 0"); n != 5 {
		t.Fatalf("%d rows are pending, want the 5 that the first process is taking", n)
	}
	release()
	firstTold := <-first
	if firstTold.PID == second.PID || firstTold.PID == os.Getpid() || second.PID == os.Getpid() {
		t.Errorf("processes %d, %d and %d are not three", os.Getpid(), firstTold.PID, second.PID)
	}
	if len(firstTold.Refs) != 5 || len(second.Refs) != 5 {
		t.Errorf("claimed %d and %d, want 5 and 5", len(firstTold.Refs), len(second.Refs))
	}
	both := append(slices.Clone(firstTold.Refs), second.Refs...)
	for _, ref := range all {
		if n := len(slices.DeleteFunc(slices.Clone(both), func(id driver.ID) bool { return id != ref })); n != 1 {
			t.Errorf("%s was claimed by %d processes", ref, n)
		}
	}
}

package consign_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/pgtest"
	"github.com/consign-go/consign/postgres"
	"github.com/consign-go/consign/sqlite"
)

// crashEnv makes this test binary the program that is killed: its value says which
// database it uses and whether it commits.
const crashEnv = "CONSIGN_TEST_CRASH"

// doomed changes a row, enqueues, commits if it is told to, says so, and waits to
// be killed.
func doomed(spec string) error {
	ctx := context.Background()
	kind, rest, _ := strings.Cut(spec, " ")
	commits, where, _ := strings.Cut(rest, " ")
	if kind == "sqlite" {
		db, err := sql.Open("sqlite", "file:"+where)
		if err != nil {
			return err
		}
		store, err := sqlite.New(db, nil)
		if err != nil {
			return err
		}
		return step(ctx, store, onDatabaseSQL(db, plainNames), commits == "commits")
	}
	schema, url, _ := strings.Cut(where, " ")
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	store, err := postgres.New(pool, &postgres.Options{Schema: schema})
	if err != nil {
		return err
	}
	return step(ctx, store, onPool(pool, schema), commits == "commits")
}

func step[TX any](ctx context.Context, store consign.Store[TX], m made[TX], commits bool) error {
	outbox, err := consign.New(store, nil)
	if err != nil {
		return err
	}
	tx, err := m.begin(ctx)
	if err != nil {
		return err
	}
	if err := m.exec(ctx, tx, m.expand(triageSQL)); err != nil {
		return err
	}
	ref, err := outbox.Enqueue(ctx, tx, notice(41))
	if err != nil {
		return err
	}
	if commits {
		if err := m.commit(ctx, tx); err != nil {
			return err
		}
	}
	fmt.Println("ready", ref)
	select {}
}

// crash runs the doomed program up to its mark, kills it, and returns its ref.
func crash(t *testing.T, spec string) consign.Ref {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), crashEnv+"="+spec)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, readErr := bufio.NewReader(out).ReadString('\n')
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	text, marked := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	ref, err := consign.ParseRef(text)
	if readErr != nil || !marked || err != nil {
		t.Fatalf("the program said %q: %v, %v", line, readErr, err)
	}
	return ref
}

// A program that is killed just before its commit has enqueued nothing; one that is
// killed just after it has enqueued for good, and the intent can be delivered.
func TestKilledAroundItsCommitLeavesBothOrNeither(t *testing.T) {
	run := func(t *testing.T, h *host, spec string, commits bool) {
		ref := crash(t, spec)
		want, status := 0, "new"
		if commits {
			want, status = 1, "triaged"
		}
		if s := h.text(t, `SELECT status FROM {t}ticket WHERE id = 41`); s != status {
			t.Errorf("the ticket is %s, want %s", s, status)
		}
		if n := stored(t, h); n != want {
			t.Errorf("%d intents, want %d", n, want)
		}
		got, err := h.outbox.Visit(t.Context(), ref)
		if commits && (err != nil || !got.Success()) || !commits && !errors.Is(err, consign.ErrNotFound) {
			t.Errorf("visited: %+v, %v", got, err)
		}
	}
	o := consign.Options{Channels: []consign.Channel{{Name: "crm", Deliver: func(context.Context, consign.Message, consign.Attempt) error { return nil }}}}
	for name, commits := range map[string]bool{"keeps": false, "commits": true} {
		t.Run("sqlite-"+name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "host.db")
			run(t, onSQLiteFile(t, path, o), "sqlite "+name+" "+path, commits)
		})
		t.Run("postgres-"+name, func(t *testing.T) {
			pool, schema := pgtest.Pool(t), pgtest.Schema(t)
			run(t, onPostgresSchema(t, pool, schema, o), "postgres "+name+" "+schema+" "+pgtest.URL(t), commits)
		})
	}
}

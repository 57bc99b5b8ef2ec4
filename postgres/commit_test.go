package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
	"github.com/consign-go/consign/internal/pgtest"
)

// modes are the ways in which a pool may send statements.
var modes = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
	pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
}

// in is the same database through a pool of another mode.
func (d *database) in(t *testing.T, mode pgx.QueryExecMode) *engine {
	t.Helper()
	pool := pgtest.Pool(t, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
	s, err := New(pool, &Options{Schema: d.schema})
	if err != nil {
		t.Fatal(err)
	}
	return s.bound.engine
}

// gateKey is an advisory lock of this test's own schema.
func (d *database) gateKey(t testing.TB) int64 {
	return one[int64](t, d, "SELECT hashtextextended($1, 0)", d.schema)
}

// shut takes the lock that a trigger of the test waits for.
func (d *database) shut(t testing.TB) (open func()) {
	t.Helper()
	conn, err := d.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	key := d.gateKey(t)
	if _, err := conn.Exec(t.Context(), "SELECT pg_advisory_lock($1)", key); err != nil {
		t.Fatal(err)
	}
	open = sync.OnceFunc(func() {
		if _, err := conn.Exec(context.WithoutCancel(t.Context()), "SELECT pg_advisory_unlock($1)", key); err != nil {
			t.Error(err)
		}
		conn.Release()
	})
	t.Cleanup(open)
	return open
}

// untilBlocked returns once n sessions wait for that lock, in the middle of a
// statement like the pattern.
func (d *database) untilBlocked(t testing.TB, n int, pattern string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		var waiting int
		if err := d.pool.QueryRow(ctx, `
			SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
			WHERE l.locktype = 'advisory' AND NOT l.granted AND a.query LIKE $2
			  AND (l.classid::bigint << 32 | l.objid::bigint) = $1`, d.gateKey(t), pattern).Scan(&waiting); err != nil {
			t.Fatalf("waiting for %d sessions in %q: %v", n, pattern, err)
		}
		if waiting == n {
			return
		}
		time.Sleep(time.Millisecond) // asked again, not hoped for: the context ends it
	}
}

// atCommit has every transaction that writes a delivery do something as it
// commits.
func (d *database) atCommit(t testing.TB, plpgsql string) {
	t.Helper()
	d.exec(t, fmt.Sprintf(`
CREATE FUNCTION {s}at_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN %s; RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER at_commit AFTER UPDATE ON {s}delivery DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION {s}at_commit()`, plpgsql))
}

// TestClaimIsHandedOutAfterItsCommit: the rows of UPDATE … RETURNING are with the
// client before the statement commits. Handed out then, a start would race its own
// claim. Here the commit is held up while the rows have long been sent.
func TestClaimIsHandedOutAfterItsCommit(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			d := open(t)
			e := d.in(t, mode)
			for range 20 {
				d.insert(t, message("mail", webhook, 200))
			}
			d.atCommit(t, fmt.Sprintf("PERFORM pg_advisory_xact_lock_shared(%d)", d.gateKey(t)))
			release := d.shut(t)
			r := request("m:mail", 20)
			answer := make(chan []driver.Claimed, 1)
			go func() {
				got, err := e.Claim(t.Context(), r)
				if err != nil {
					t.Error(err)
				}
				answer <- got
			}()
			d.untilBlocked(t, 1, "%COMMIT%")
			if n := one[int](t, d, "SELECT count(*) FROM {s}delivery WHERE owner IS NOT NULL"); n != 0 {
				t.Fatalf("%d rows are committed before the commit", n)
			}
			select {
			case got := <-answer:
				t.Fatalf("%d rows were handed out before their claim committed", len(got))
			default:
			}
			release()
			got := <-answer
			if len(got) != 20 {
				t.Fatalf("claimed %d", len(got))
			}
			apply(t, d, starts(got)) // no start overtakes its claim
		})
	}
}

// TestFailedCommitHandsOutNothing: what a commit refuses was never claimed, never
// applied.
func TestFailedCommitHandsOutNothing(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			d := open(t)
			e := d.in(t, mode)
			n := message("mail", webhook, 200)
			d.insert(t, n)
			x := lifecycle.DefaultPolicy.Apply(d.take(t, n.Ref).State, lifecycle.Event{Kind: lifecycle.EvCancel})
			x.Ref = n.Ref
			if err := d.Elapse(t.Context(), time.Hour); err != nil {
				t.Fatal(err)
			}
			d.atCommit(t, "RAISE EXCEPTION 'not now: %', NEW.ref")
			before := d.whole(t, n.Ref)
			r := request("m:mail", 1)
			r.Suspects = true
			if got, err := e.Claim(t.Context(), r); err == nil || len(got) != 0 {
				t.Errorf("handed out %d rows, %v", len(got), err)
			}
			if held, err := e.Apply(t.Context(), []lifecycle.Transition{x}); err == nil || len(held) != 0 {
				t.Errorf("told %v, %v", held, err)
			}
			if d.whole(t, n.Ref) != before {
				t.Error("the row has changed")
			}
		})
	}
}

// TestEngineStatesItsOwnSettings: whatever the role's defaults are, the engine's
// transactions are what it needs, and the connection is left as it was.
func TestEngineStatesItsOwnSettings(t *testing.T) {
	defaults := map[string]string{
		"default_transaction_isolation": "serializable", "default_transaction_read_only": "on", "synchronous_commit": "off",
		"enable_indexscan": "on", "enable_seqscan": "on", "plan_cache_mode": "auto", "jit": "on",
	}
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			d := open(t)
			pool := pgtest.Pool(t, connections(1), func(c *pgxpool.Config) {
				c.ConnConfig.DefaultQueryExecMode = mode
				for name, value := range defaults {
					c.ConnConfig.RuntimeParams[name] = value
				}
			})
			s, err := New(pool, &Options{Schema: d.schema})
			if err != nil {
				t.Fatal(err)
			}
			d.insert(t, message("mail", webhook, 200))
			d.exec(t, `
CREATE TABLE {s}seen (at_claim text);
CREATE FUNCTION {s}note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO {s}seen SELECT current_setting('transaction_isolation') || ' ' || current_setting('synchronous_commit');
    RETURN NULL; END $$;
CREATE TRIGGER note AFTER UPDATE ON {s}delivery FOR EACH ROW EXECUTE FUNCTION {s}note()`)
			got, err := s.bound.Claim(t.Context(), request("m:mail", 1))
			if err != nil || len(got) != 1 {
				t.Fatal(len(got), err)
			}
			if seen := one[string](t, d, "SELECT at_claim FROM {s}seen"); seen != "read committed on" {
				t.Errorf("the claim ran under %q", seen)
			}
			for name, value := range defaults {
				var is string
				if err := pool.QueryRow(t.Context(), "SELECT current_setting($1::text)", name).Scan(&is); err != nil || is != value {
					t.Errorf("%s is %q after the claim, was %q, %v", name, is, value, err)
				}
			}
		})
	}
}

// TestErasureTakesWhatIsStillBeingWritten: a settle that is under way when its
// intent is erased leaves no text behind, and neither does late evidence.
func TestErasureTakesWhatIsStillBeingWritten(t *testing.T) {
	const secret = "needle in the haystack"
	for name, write := range map[string]func(t *testing.T, d *database, tx pgx.Tx, c driver.Claimed) error{
		"settle": func(t *testing.T, d *database, tx pgx.Tx, c driver.Claimed) error {
			_, err := d.engine.set(t.Context(), tx, []lifecycle.Transition{
				decide(t, c, lifecycle.Event{Kind: lifecycle.EvRefused, Error: secret}),
			})
			return err
		},
		"evidence": func(t *testing.T, d *database, tx pgx.Tx, c driver.Claimed) error {
			return query(t.Context(), tx, d.q.appendLate, logArgs([]driver.Logged{{
				Ref:     c.Intent.Ref,
				Attempt: lifecycle.Attempt{Generation: 1, Number: 1, Outcome: lifecycle.Unknown, Error: secret, Late: true},
			}}), nothing)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t)
			n := message("mail", webhook, 200)
			n.Subject = "customer:1"
			d.insert(t, n)
			c := d.take(t, n.Ref)
			x := decide(t, c, lifecycle.Event{Kind: lifecycle.EvStart})
			apply(t, d, []lifecycle.Transition{x})
			tx, err := d.pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := write(t, d, tx, after(c, &x)); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() {
				erased, err := d.Erase(t.Context(), []string{"customer:1"})
				if erased != 1 {
					err = errors.Join(err, fmt.Errorf("erased %d", erased))
				}
				done <- err
			}()
			for {
				waiting, err := d.suite().Blocked(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if waiting == 1 {
					break
				}
				time.Sleep(time.Millisecond) // asked again, not hoped for
			}
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			log, err := d.History(t.Context(), n.Ref)
			if err != nil || len(log) != 1 || log[0].Error != "" {
				t.Errorf("the log is %+v, %v", log, err)
			}
		})
	}
}

// TestPruneLeavesNoEvidenceBehind: what is being written about an ended delivery
// keeps it from being pruned; afterwards it goes with it.
func TestPruneLeavesNoEvidenceBehind(t *testing.T) {
	d := open(t)
	n := message("mail", webhook, 200)
	d.insert(t, n)
	c := d.take(t, n.Ref)
	x := decide(t, c, lifecycle.Event{Kind: lifecycle.EvStart})
	apply(t, d, []lifecycle.Transition{x})
	apply(t, d, []lifecycle.Transition{decide(t, after(c, &x), lifecycle.Event{Kind: lifecycle.EvSucceeded})})
	tx, err := d.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if err := query(t.Context(), tx, d.q.appendLate, logArgs([]driver.Logged{{
		Ref: n.Ref, Attempt: lifecycle.Attempt{Generation: 1, Number: 1, Outcome: lifecycle.Unknown, Late: true},
	}}), nothing); err != nil {
		t.Fatal(err)
	}
	tomorrow := time.Now().Add(24 * time.Hour)
	if pruned, err := d.Prune(t.Context(), lifecycle.Message, tomorrow, 10); err != nil || pruned != 0 {
		t.Errorf("pruned %d that somebody is writing about, %v", pruned, err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if pruned, err := d.Prune(t.Context(), lifecycle.Message, tomorrow, 10); err != nil || pruned != 1 {
		t.Errorf("pruned %d, %v", pruned, err)
	}
	if left := one[int](t, d, "SELECT count(*) FROM {s}attempt"); left != 0 {
		t.Errorf("%d rows of the log are left", left)
	}
}

package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
	"github.com/consign-go/consign/internal/pgtest"
)

const needle = "needle in the haystack"

// TestErrorsQuoteNoContent: whatever the server says about a row, neither the
// error's text nor anything it wraps repeats content.
func TestErrorsQuoteNoContent(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			d := open(t)
			e := d.in(t, mode)
			insert := func(rows ...driver.New) error {
				return pgx.BeginFunc(t.Context(), e.pool, func(tx pgx.Tx) error {
					return pgxBound{e}.Join(tx).Insert(t.Context(), rows)
				})
			}
			contentFaults(t, d, e, insert)
		})
	}
	t.Run("database/sql", func(t *testing.T) {
		d := open(t)
		s, db := openSQL(t, d)
		contentFaults(t, d, d.engine, func(rows ...driver.New) error {
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if err := s.bound.Join(tx).Insert(t.Context(), rows); err != nil {
				return err
			}
			return tx.Commit()
		})
	})
}

// contentFaults provokes errors for which the server quotes a row or a value.
func contentFaults(t *testing.T, d *database, e *engine, insert func(...driver.New) error) {
	secret := message("mail", webhook, 100)
	secret.Payload, secret.Address, secret.Task, secret.Subject = []byte(`"`+needle+`"`), needle, needle, needle
	if err := insert(secret); err != nil {
		t.Fatal(err)
	}
	shapeless := message("mail", webhook, 100)
	shapeless.Payload, shapeless.Address, shapeless.Version = secret.Payload, needle, needle
	nul := message("mail", webhook, 100)
	nul.Address = needle + "\x00"
	broken := message("mail", webhook, 100)
	broken.Address = needle + "\xff"
	end := lifecycle.Transition{
		Ref: secret.Ref, Answer: lifecycle.Apply,
		Set: lifecycle.Columns{
			Status: lifecycle.Failed, Due: lifecycle.Keep, Lease: lifecycle.Keep, Review: lifecycle.Keep,
			SetError: true, Error: needle,
		},
	}
	unknown := end
	unknown.Set.Due, unknown.Set.Code = lifecycle.Clear, needle
	faults := map[string]error{
		"a shape that is refused": insert(shapeless),
		"a NUL":                   insert(nul),
		"no UTF-8":                insert(broken),
		"an impossible state":     second(e.Apply(t.Context(), []lifecycle.Transition{end})),
		"an unknown code":         second(e.Apply(t.Context(), []lifecycle.Transition{unknown})),
		"impossible evidence": e.Append(t.Context(), []driver.Logged{{
			Ref: secret.Ref, Attempt: lifecycle.Attempt{Error: needle, Outcome: 9, Generation: 1, Number: 1},
		}}),
	}
	if err := insert(secret); !errors.Is(err, driver.ErrTaken) || strings.Contains(err.Error(), needle) {
		t.Errorf("a ref that exists: %v", err)
	}
	d.exec(t, `
CREATE FUNCTION {s}tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    RAISE EXCEPTION 'what about %', NEW.payload USING DETAIL = NEW.payload, HINT = NEW.payload; END $$;
CREATE TRIGGER tell BEFORE INSERT ON {s}intent FOR EACH ROW EXECUTE FUNCTION {s}tell()`)
	other := secret
	other.Ref, other.Key, other.Task = driver.NewID(), driver.ID{}, ""
	other.Key = other.Ref
	faults["a trigger of somebody's"] = insert(other)
	d.exec(t, "DROP TRIGGER tell ON {s}intent")
	for what, err := range faults {
		if err == nil {
			t.Errorf("%s: no error", what)
			continue
		}
		if text := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(text, needle) {
			t.Errorf("%s: the error quotes content: %s", what, err)
		}
		for wrapped := err; wrapped != nil; wrapped = errors.Unwrap(wrapped) {
			if text := fmt.Sprintf("%+v %#v", wrapped, wrapped); strings.Contains(text, needle) {
				t.Errorf("%s: what the error wraps quotes content: %T", what, wrapped)
			}
		}
		var raw *pgconn.PgError
		if errors.As(err, &raw) {
			t.Errorf("%s: the server's own error is within reach", what)
		}
		var own *Error
		if !errors.As(err, &own) || len(own.SQLState()) != 5 {
			t.Errorf("%s: %v has no SQLSTATE", what, err)
		}
	}
}

func TestErrorsOfTheContract(t *testing.T) {
	d := open(t)
	s, db := openSQL(t, d)
	begun := func(end func(pgx.Tx) error) pgx.Tx {
		tx, err := d.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := end(tx); err != nil {
			t.Fatal(err)
		}
		return tx
	}
	begunSQL := func(end func(*sql.Tx) error) *sql.Tx {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := end(tx); err != nil {
			t.Fatal(err)
		}
		return tx
	}
	for what, tx := range map[string]driver.Tx{
		"no transaction":      d.bound.Join(nil),
		"no *sql.Tx":          s.bound.Join(nil),
		"committed":           d.bound.Join(begun(func(tx pgx.Tx) error { return tx.Commit(t.Context()) })),
		"rolled back":         d.bound.Join(begun(func(tx pgx.Tx) error { return tx.Rollback(t.Context()) })),
		"committed *sql.Tx":   s.bound.Join(begunSQL((*sql.Tx).Commit)),
		"*sql.Tx rolled back": s.bound.Join(begunSQL((*sql.Tx).Rollback)),
	} {
		given := message("mail", webhook, 100)
		given.Given = true
		_, savepoint := tx.Savepoint(t.Context())
		_, schema := tx.Schema(t.Context())
		for call, err := range map[string]error{
			"insert":       tx.Insert(t.Context(), []driver.New{message("mail", webhook, 100)}),
			"insert given": tx.Insert(t.Context(), []driver.New{given}),
			"open run":     tx.OpenRun(t.Context(), driver.Run{ID: driver.NewID()}),
			"seal run":     tx.SealRun(t.Context(), driver.Run{ID: driver.NewID()}),
			"propose":      tx.Propose(t.Context(), driver.Approval{}, time.Hour),
			"consume":      tx.Consume(t.Context(), driver.NewID(), driver.NewID()),
			"savepoint":    savepoint,
			"schema":       schema,
			"commit":       tx.Commit(t.Context()),
			"rollback":     tx.Rollback(t.Context()),
		} {
			if !errors.Is(err, driver.ErrClosed) {
				t.Errorf("%s: %s gives %v, want ErrClosed", what, call, err)
			}
		}
	}
	if n := one[int](t, d, "SELECT count(*) FROM {s}intent"); n != 0 {
		t.Errorf("%d intents were written", n)
	}
	gone, err := New(d.pool, &Options{Schema: "nowhere"})
	if err != nil {
		t.Fatal(err)
	}
	err = d.within(t.Context(), func(tx pgx.Tx) error {
		_, err := gone.bound.Join(tx).Schema(t.Context())
		if !errors.Is(err, driver.ErrNoSchema) {
			t.Errorf("schema of a missing one: %v", err)
		}
		return d.bound.Join(tx).Insert(t.Context(), []driver.New{message("mail", webhook, 100)})
	})
	if err != nil {
		t.Errorf("asking for a missing schema broke the transaction: %v", err)
	}
	if _, err := gone.bound.Claim(t.Context(), request("m:mail", 1)); !errors.Is(err, driver.ErrNoSchema) {
		t.Errorf("claim in a missing schema: %v", err)
	}
	closed, err := pgxpool.New(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	over, err := New(closed, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := over.bound.Now(t.Context()); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("a closed pool gives %v", err)
	}
	if _, _, err := over.bound.Begin(t.Context()); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("a closed pool gives %v", err)
	}
	db.Close()
	if _, _, err := s.bound.Begin(t.Context()); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("a closed *sql.DB gives %v", err)
	}
}

func (d *database) within(ctx context.Context, fn func(tx pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, d.pool, fn)
}

// TestRefusedCommit: a commit that the server refuses did not happen, and its error
// says so.
func TestRefusedCommit(t *testing.T) {
	d := open(t)
	s, _ := openSQL(t, d)
	d.exec(t, `
CREATE FUNCTION {s}refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$;
CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON {s}intent DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION {s}refuse()`)
	for name, begin := range begins(t, d.Store, s) {
		tx := begin()
		if err := tx.Insert(t.Context(), []driver.New{message("mail", webhook, 100)}); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(t.Context()); err == nil || errors.Is(err, driver.ErrUnconfirmed) || errors.Is(err, driver.ErrClosed) {
			t.Errorf("%s: a refused commit gives %v", name, err)
		}
		broken := begin()
		if err := broken.OpenRun(t.Context(), driver.Run{}); err == nil {
			t.Fatal("a run without an ID was opened")
		}
		if err := broken.Commit(t.Context()); err == nil || errors.Is(err, driver.ErrUnconfirmed) {
			t.Errorf("%s: the commit of a broken transaction gives %v", name, err)
		}
	}
	if n := one[int](t, d, "SELECT count(*) FROM {s}intent"); n != 0 {
		t.Errorf("%d intents were written", n)
	}
}

// begins are the two ways to open a transaction.
func begins(t *testing.T, pgx *Store, sql *SQLStore) map[string]func() driver.Tx {
	return map[string]func() driver.Tx{
		"pgx": func() driver.Tx {
			_, tx, err := pgx.bound.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return tx
		},
		"sql": func() driver.Tx {
			_, tx, err := sql.bound.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return tx
		},
	}
}

// TestUnconfirmedCommit: of a commit that nobody answered nobody knows. Here it
// takes effect after its client was told so.
func TestUnconfirmedCommit(t *testing.T) {
	d := open(t)
	for _, name := range []string{"pgx", "sql"} {
		proxy, slow, cut := behind(t, d)
		s, _ := openSQL(t, &database{pool: slow.bound.pool, schema: d.schema})
		n := message("mail", webhook, 100)
		tx := begins(t, slow, s)[name]()
		if err := tx.Insert(t.Context(), []driver.New{n}); err != nil {
			t.Fatal(err)
		}
		held := proxy.Hold()
		answer := make(chan error, 1)
		go func() { answer <- tx.Commit(t.Context()) }()
		await(t, "the commit is on the wire", held.Arrived())
		cut()
		if err := <-answer; !errors.Is(err, driver.ErrUnconfirmed) {
			t.Errorf("%s: a commit without an answer gives %v", name, err)
		}
		await(t, "the client is gone", held.Gone())
		if got, err := d.Load(t.Context(), []driver.ID{n.Ref}); err != nil || len(got) != 0 {
			t.Errorf("%s: %d rows before the commit arrived, %v", name, len(got), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if _, err := held.Release(ctx); err != nil {
			t.Fatal(err)
		}
		if got, err := d.Load(t.Context(), []driver.ID{n.Ref}); err != nil || len(got) != 1 {
			t.Errorf("%s: %d rows after the commit arrived, %v", name, len(got), err)
		}
	}
}

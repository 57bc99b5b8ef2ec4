package consign_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/driver/memory"
	"github.com/consign-go/consign/migrate"
)

func TestSchemaThatDoesNotFitIsRefusedWithAdvice(t *testing.T) {
	record := func(version, oldest string) string {
		return `INSERT INTO {s}migration (version, name, checksum, oldest, applied_at) SELECT ` + version + `, 'later', 'x', ` + oldest + `, applied_at FROM {s}migration WHERE version = 1`
	}
	cases := []struct {
		name, change, advice string
	}{
		{"newer and incompatible", record("2", "2"), "works with programs from version 2 on, this one knows 1: update the program"},
		{"missing", "", "run migrate.Up"},
	}
	for _, c := range cases {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			onEveryStore(t, consign.Options{Authority: &deskOn[any]{desk: &desk{}}}, func(t *testing.T, h *host) {
				if c.change != "" {
					h.exec(t, c.change)
				} else if _, err := migrate.Down(t.Context(), h.store, 0); err != nil {
					t.Fatal(err)
				}
				check := func(name string, err error) {
					t.Helper()
					if !errors.Is(err, consign.ErrSchema) || !strings.Contains(err.Error(), c.advice) {
						t.Errorf("%s: %v, want ErrSchema with %q", name, err, c.advice)
					}
				}
				tx := h.begin(t)
				_, err := tx.Enqueue(notice(1))
				check("enqueue", err)
				tx.Rollback()
				_, err = h.outbox.EnqueueNow(t.Context(), notice(1))
				check("enqueue now", err)
				_, err = h.outbox.Run(t.Context(), admit, func(context.Context, *txn, *consign.Run) error { return nil })
				check("run", err)
				_, err = h.outbox.Drain(t.Context(), 0)
				check("drain", err)
				_, err = h.outbox.Visit(t.Context(), consign.NewRef())
				check("visit", err)
				_, err = h.outbox.Scan(t.Context(), new(queue), 0)
				check("scan", err)
				check("serve", h.outbox.Serve(t.Context()))
				if c.change != "" {
					if n := stored(t, h); n != 0 {
						t.Errorf("%d intents were written all the same", n)
					}
				}
			})
		})
	}
	t.Run("newer-and-compatible", func(t *testing.T) {
		onEveryStore(t, consign.Options{}, func(t *testing.T, h *host) {
			h.exec(t, record("2", "1"))
			if _, err := h.outbox.EnqueueNow(t.Context(), notice(1)); err != nil {
				t.Errorf("a database that is ahead and compatible: %v", err)
			}
		})
	})
}

// unsure is a store whose commits lose their answer.
type unsure struct {
	*memory.Store
	arrives bool // the commit happened all the same
}

type unsureBound struct {
	driver.Bound[*memory.Tx]
	arrives bool
}

type unsureTx struct {
	driver.Tx
	arrives bool
}

func (s unsure) Driver(k driver.Key) driver.Bound[*memory.Tx] {
	return unsureBound{s.Store.Driver(k), s.arrives}
}

func (b unsureBound) Begin(ctx context.Context) (*memory.Tx, driver.Tx, error) {
	tx, dtx, err := b.Bound.Begin(ctx)
	return tx, unsureTx{dtx, b.arrives}, err
}

func (tx unsureTx) Commit(ctx context.Context) error {
	end := tx.Tx.Rollback
	if tx.arrives {
		end = tx.Tx.Commit
	}
	return errors.Join(driver.ErrUnconfirmed, end(ctx))
}

func TestLostCommitAnswerIsLookedUp(t *testing.T) {
	for _, arrives := range []bool{true, false} {
		ob, err := consign.New(unsure{memory.New(), arrives}, nil)
		if err != nil {
			t.Fatal(err)
		}
		ref, err := ob.EnqueueNow(t.Context(), notice(1))
		if arrives && err != nil {
			t.Errorf("a commit that happened: %v", err)
		}
		if !arrives && (!errors.Is(err, consign.ErrUnconfirmed) || ref.IsZero()) {
			t.Errorf("a commit that may not have happened: ref %s, %v; want a ref and ErrUnconfirmed", ref, err)
		}
	}
}

func TestFindOfAnUnknownRef(t *testing.T) {
	onEveryStore(t, consign.Options{}, func(t *testing.T, h *host) {
		if _, err := h.outbox.Find(t.Context(), consign.NewRef()); !errors.Is(err, consign.ErrNotFound) {
			t.Errorf("got %v, want ErrNotFound", err)
		}
	})
}

func TestRefAndEntityText(t *testing.T) {
	ref := consign.NewRef()
	back, err := consign.ParseRef(strings.ToUpper(ref.String()))
	if err != nil || back != ref {
		t.Errorf("%s reads back as %s: %v", ref, back, err)
	}
	for _, bad := range []string{"", "secret", ref.String() + "0", strings.Replace(ref.String(), "-", "_", 1), "g" + ref.String()[1:]} {
		_, err := consign.ParseRef(bad)
		checkInvalid(t, "ref", err, "id is not a UUID")
	}
	var scanned consign.Ref
	value, _ := ref.Value()
	if err := scanned.Scan(value); err != nil || scanned != ref {
		t.Errorf("scanned %s: %v", scanned, err)
	}
	if err := scanned.Scan(ref.ID[:]); err != nil || scanned != ref {
		t.Errorf("scanned bytes %s: %v", scanned, err)
	}
	if err := scanned.Scan(7); err == nil {
		t.Error("a number was scanned")
	}
	e, err := consign.ParseEntity("ticket:a:b")
	if err != nil || e != (consign.Entity{Type: "ticket", ID: "a:b"}) || e.String() != "ticket:a:b" {
		t.Errorf("entity %v: %v", e, err)
	}
	for _, bad := range []string{"", "secret", ":1", "t:", "t:\x00", strings.Repeat("t", 129) + ":1"} {
		_, err := consign.ParseEntity(bad)
		checkInvalid(t, "entity", err, "entity")
	}
}

package tickets

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"testing"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"github.com/uptrace/bun/schema"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/examples/orm/ormtest"
	"github.com/consign-go/consign/internal/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

var errStop = errors.New("the program changed its mind")

func onEachBun(t *testing.T, test func(t *testing.T, db *bun.DB, h *ormtest.Host)) {
	ormtest.OnEachDatabase(t, func(t *testing.T, h *ormtest.Host) {
		var dialect schema.Dialect = sqlitedialect.New()
		if h.Dialect == "postgres" {
			dialect = pgdialect.New()
		}
		test(t, bun.NewDB(h.DB, dialect), h)
	})
}

func TestRowAndIntentCommitTogether(t *testing.T) {
	onEachBun(t, func(t *testing.T, db *bun.DB, h *ormtest.Host) {
		if err := Triage(t.Context(), db, h.Outbox, 41, ""); err != nil {
			t.Fatal(err)
		}
		h.WantTriaged(t, 41)
	})
}

func TestRollbackLeavesNeitherRowNorIntent(t *testing.T) {
	onEachBun(t, func(t *testing.T, db *bun.DB, h *ormtest.Host) {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := Triage(t.Context(), tx, h.Outbox, 41, ""); err != nil {
			t.Fatal(err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		h.WantTriaged(t)
	})
}

func TestRefusedEnqueueTakesTheRowBack(t *testing.T) {
	onEachBun(t, func(t *testing.T, db *bun.DB, h *ormtest.Host) {
		if err := Triage(t.Context(), db, h.Outbox, 41, ormtest.TooLong); !errors.Is(err, consign.ErrInvalid) {
			t.Fatalf("%v, want ErrInvalid", err)
		}
		h.WantTriaged(t)
	})
}

func TestMissingRowEnqueuesNothing(t *testing.T) {
	onEachBun(t, func(t *testing.T, db *bun.DB, h *ormtest.Host) {
		if err := Triage(t.Context(), db, h.Outbox, 43, ""); !errors.Is(err, sql.ErrNoRows) {
			t.Fatalf("%v, want ErrNoRows", err)
		}
		h.WantTriaged(t)
	})
}

func TestNestedRollbackTakesItsOwnRowAndIntentOnly(t *testing.T) {
	onEachBun(t, func(t *testing.T, db *bun.DB, h *ormtest.Host) {
		err := db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
			if err := Triage(ctx, tx, h.Outbox, 41, ""); err != nil {
				return err
			}
			err := tx.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
				if err := Triage(ctx, tx, h.Outbox, 42, ""); err != nil {
					return err
				}
				return errStop
			})
			if !errors.Is(err, errStop) {
				return err
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		h.WantTriaged(t, 41)
	})
}

func TestRefusedEnqueueInANestedTransactionLeavesTheOuterOneUsable(t *testing.T) {
	onEachBun(t, func(t *testing.T, db *bun.DB, h *ormtest.Host) {
		err := db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
			if err := Triage(ctx, tx, h.Outbox, 41, ormtest.TooLong); !errors.Is(err, consign.ErrInvalid) {
				t.Errorf("%v, want ErrInvalid", err)
			}
			return Triage(ctx, tx, h.Outbox, 42, "")
		})
		if err != nil {
			t.Fatal(err)
		}
		h.WantTriaged(t, 42)
	})
}

// A query of bun's takes any connection, so a transaction that Outbox.Run hands
// out, or consign.Read, needs no wrapper.
func TestBunRunsOnATransactionOfSomebodyElse(t *testing.T) {
	onEachBun(t, func(t *testing.T, db *bun.DB, h *ormtest.Host) {
		tx, err := h.DB.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		ticket := Ticket{ID: 41, Status: "triaged"}
		if _, err := db.NewUpdate().Conn(tx).Model(&ticket).Column("status").WherePK().Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
		var seen Ticket
		if err := db.NewSelect().Conn(tx).Model(&seen).Where("id = ?", 41).Scan(t.Context()); err != nil || seen != ticket {
			t.Fatalf("%v and %v, want %v", seen, err, ticket)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		h.WantTriaged(t)
	})
}

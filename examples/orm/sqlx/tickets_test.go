package tickets

import (
	"database/sql"
	"errors"
	"os"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/examples/orm/ormtest"
	"github.com/consign-go/consign/internal/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

func onEachSqlx(t *testing.T, test func(t *testing.T, db *sqlx.DB, h *ormtest.Host)) {
	ormtest.OnEachDatabase(t, func(t *testing.T, h *ormtest.Host) {
		// The name decides how sqlx writes parameters: $1 for postgres. To it the
		// driver name "sqlite" is unknown, which comes to the same as sqlite3's ?.
		test(t, sqlx.NewDb(h.DB, h.Dialect), h)
	})
}

func TestRowAndIntentCommitTogether(t *testing.T) {
	onEachSqlx(t, func(t *testing.T, db *sqlx.DB, h *ormtest.Host) {
		if err := Triage(t.Context(), db, h.Outbox, 41, ""); err != nil {
			t.Fatal(err)
		}
		h.WantTriaged(t, 41)
	})
}

func TestRollbackLeavesNeitherRowNorIntent(t *testing.T) {
	onEachSqlx(t, func(t *testing.T, db *sqlx.DB, h *ormtest.Host) {
		tx, err := db.BeginTxx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := TriageIn(t.Context(), tx, h.Outbox, 41, ""); err != nil {
			t.Fatal(err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		h.WantTriaged(t)
	})
}

func TestRefusedEnqueueTakesTheRowBack(t *testing.T) {
	onEachSqlx(t, func(t *testing.T, db *sqlx.DB, h *ormtest.Host) {
		if err := Triage(t.Context(), db, h.Outbox, 41, ormtest.TooLong); !errors.Is(err, consign.ErrInvalid) {
			t.Fatalf("%v, want ErrInvalid", err)
		}
		h.WantTriaged(t)
	})
}

func TestMissingRowEnqueuesNothing(t *testing.T) {
	onEachSqlx(t, func(t *testing.T, db *sqlx.DB, h *ormtest.Host) {
		if err := Triage(t.Context(), db, h.Outbox, 43, ""); !errors.Is(err, sql.ErrNoRows) {
			t.Fatalf("%v, want ErrNoRows", err)
		}
		h.WantTriaged(t)
	})
}

func TestSavepointTakesItsOwnRowAndIntentOnly(t *testing.T) {
	onEachSqlx(t, func(t *testing.T, db *sqlx.DB, h *ormtest.Host) {
		tx, err := db.BeginTxx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		for _, step := range []func() error{
			func() error { return TriageIn(t.Context(), tx, h.Outbox, 41, "") },
			func() error { _, err := tx.Exec(`SAVEPOINT part`); return err },
			func() error { return TriageIn(t.Context(), tx, h.Outbox, 42, "") },
			func() error { _, err := tx.Exec(`ROLLBACK TO SAVEPOINT part`); return err },
			tx.Commit,
		} {
			if err := step(); err != nil {
				t.Fatal(err)
			}
		}
		h.WantTriaged(t, 41)
	})
}

func TestSqlxRunsOnATransactionOfSomebodyElse(t *testing.T) {
	onEachSqlx(t, func(t *testing.T, db *sqlx.DB, h *ormtest.Host) {
		tx, err := h.DB.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		var seen Ticket
		if err := On(tx, db).Get(&seen, `SELECT * FROM tickets WHERE id = $1`, 41); err != nil || seen != (Ticket{41, "new"}) {
			t.Fatalf("%v and %v", seen, err)
		}
	})
}

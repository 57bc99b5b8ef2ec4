package tickets

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"strings"
	"testing"

	"gorm.io/driver/postgres"
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/examples/orm/ormtest"
	"github.com/consign-go/consign/internal/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

var errStop = errors.New("the program changed its mind")

// onEachGORM runs a test on each database, without and with prepared statements.
// GORM's SQLite dialect links the library mattn/go-sqlite3. It may serve the file,
// or GORM is given a handle of another library; but never two libraries one file,
// so the store has the handle that GORM has.
func onEachGORM(t *testing.T, test func(t *testing.T, db *gorm.DB, h *ormtest.Host)) {
	for _, prepare := range []bool{false, true} {
		name := map[bool]string{false: "plain", true: "prepared"}[prepare]
		t.Run(name+"/postgres", func(t *testing.T) {
			h := ormtest.OnPostgres(t)
			test(t, open(t, postgres.New(postgres.Config{Conn: h.DB}), prepare), h)
		})
		t.Run(name+"/sqlite", func(t *testing.T) {
			h := ormtest.OnSQLite(t, ormtest.OpenSQLite(t, "sqlite")) // modernc.org/sqlite
			test(t, open(t, sqlite.Dialector{Conn: h.DB}, prepare), h)
		})
		t.Run(name+"/sqlite-mattn", func(t *testing.T) {
			h := ormtest.OnSQLite(t, ormtest.OpenSQLite(t, sqlite.DriverName))
			test(t, open(t, sqlite.Dialector{Conn: h.DB}, prepare), h)
		})
	}
}

func open(t *testing.T, d gorm.Dialector, prepare bool) *gorm.DB {
	t.Helper()
	db, err := gorm.Open(d, &gorm.Config{PrepareStmt: prepare, Logger: logger.Discard})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func TestRowAndIntentCommitTogether(t *testing.T) {
	onEachGORM(t, func(t *testing.T, db *gorm.DB, h *ormtest.Host) {
		for _, id := range []int{41, 42} { // the second time with the statements of the first
			if err := Triage(t.Context(), db, h.Outbox, id, ""); err != nil {
				t.Fatal(err)
			}
		}
		h.WantTriaged(t, 41, 42)
	})
}

func TestRollbackLeavesNeitherRowNorIntent(t *testing.T) {
	onEachGORM(t, func(t *testing.T, db *gorm.DB, h *ormtest.Host) {
		tx := db.Begin()
		if err := Triage(t.Context(), tx, h.Outbox, 41, ""); err != nil {
			t.Fatal(err)
		}
		if err := tx.Rollback().Error; err != nil {
			t.Fatal(err)
		}
		h.WantTriaged(t)
	})
}

func TestRefusedEnqueueTakesTheRowBack(t *testing.T) {
	onEachGORM(t, func(t *testing.T, db *gorm.DB, h *ormtest.Host) {
		if err := Triage(t.Context(), db, h.Outbox, 41, ormtest.TooLong); !errors.Is(err, consign.ErrInvalid) {
			t.Fatalf("%v, want ErrInvalid", err)
		}
		h.WantTriaged(t)
	})
}

func TestMissingRowEnqueuesNothing(t *testing.T) {
	onEachGORM(t, func(t *testing.T, db *gorm.DB, h *ormtest.Host) {
		if err := Triage(t.Context(), db, h.Outbox, 43, ""); !errors.Is(err, gorm.ErrRecordNotFound) {
			t.Fatalf("%v, want ErrRecordNotFound", err)
		}
		h.WantTriaged(t)
	})
}

func TestNestedRollbackTakesItsOwnRowAndIntentOnly(t *testing.T) {
	onEachGORM(t, func(t *testing.T, db *gorm.DB, h *ormtest.Host) {
		err := db.Transaction(func(tx *gorm.DB) error {
			if err := Triage(t.Context(), tx, h.Outbox, 41, ""); err != nil {
				return err
			}
			err := tx.Transaction(func(tx *gorm.DB) error {
				if err := Triage(t.Context(), tx, h.Outbox, 42, ""); err != nil {
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
	onEachGORM(t, func(t *testing.T, db *gorm.DB, h *ormtest.Host) {
		err := db.Transaction(func(tx *gorm.DB) error {
			if err := Triage(t.Context(), tx, h.Outbox, 41, ormtest.TooLong); !errors.Is(err, consign.ErrInvalid) {
				t.Errorf("%v, want ErrInvalid", err)
			}
			return Triage(t.Context(), tx, h.Outbox, 42, "")
		})
		if err != nil {
			t.Fatal(err)
		}
		h.WantTriaged(t, 42)
	})
}

func TestSQLTxFindsTheTransactionOfEveryHandle(t *testing.T) {
	onEachGORM(t, func(t *testing.T, db *gorm.DB, h *ormtest.Host) {
		tx := db.WithContext(t.Context()).Begin()
		defer tx.Rollback()
		want, err := SQLTx(tx)
		if err != nil {
			t.Fatal(err)
		}
		prepared := tx.Session(&gorm.Session{PrepareStmt: true})
		for name, handle := range map[string]*gorm.DB{
			"query":                tx.Model(&Ticket{}).Where("id = ?", 41),
			"session":              tx.Session(&gorm.Session{NewDB: true}),
			"prepared session":     prepared,
			"prepared once more":   prepared.Session(&gorm.Session{PrepareStmt: true}),
			"context":              tx.WithContext(t.Context()),
			"after a good command": tx.Model(&Ticket{ID: 41}).Update("status", "seen"),
		} {
			if got, err := SQLTx(handle); got != want || err != nil {
				t.Errorf("%s: %p and %v, want %p", name, got, err, want)
			}
		}
	})
}

func TestSQLTxRefusesAHandleThatIsInNoTransaction(t *testing.T) {
	onEachGORM(t, func(t *testing.T, db *gorm.DB, h *ormtest.Host) {
		over, cancel := context.WithCancel(t.Context())
		cancel()
		for name, c := range map[string]struct {
			db   *gorm.DB
			want string
		}{
			"no transaction": {db, "pass the handle that Transaction gives"},
			"failed begin":   {db.WithContext(over).Begin(), context.Canceled.Error()},
		} {
			if tx, err := SQLTx(c.db); tx != nil || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v and %v, want an error with %q", name, tx, err, c.want)
			}
		}
	})
}

func TestGORMRunsOnATransactionOfSomebodyElse(t *testing.T) {
	onEachGORM(t, func(t *testing.T, db *gorm.DB, h *ormtest.Host) {
		for _, step := range []struct {
			end  func(*sql.Tx) error
			want []int
		}{{(*sql.Tx).Rollback, nil}, {(*sql.Tx).Commit, []int{41}}} {
			tx, err := h.DB.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := Triage(t.Context(), On(t.Context(), db, tx), h.Outbox, 41, ""); err != nil {
				t.Fatal(err)
			}
			if err := step.end(tx); err != nil {
				t.Fatal(err)
			}
			h.WantTriaged(t, step.want...)
		}
	})
}

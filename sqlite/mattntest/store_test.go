package mattntest

import (
	"database/sql"
	"fmt"
	"testing"

	_ "github.com/mattn/go-sqlite3"

	"github.com/consign-go/consign/internal/driver/drivertest"
	"github.com/consign-go/consign/sqlite/internal/suite"
)

var mattn = suite.Library{
	Driver: "sqlite3",
	DSN: func(path string, busy int) string {
		return fmt.Sprintf("file:%s?_busy_timeout=%d&_journal_mode=WAL&_synchronous=FULL", suite.Escaped(path), busy)
	},
}

func TestConformance(t *testing.T) {
	for _, conns := range []int{1, 8} {
		t.Run(fmt.Sprint(conns), func(t *testing.T) {
			drivertest.Run(t, func(t *testing.T) drivertest.Harness[*sql.Tx] {
				db, store := mattn.Fresh(t, conns)
				return suite.Harness(t, db, store, conns > 1)
			})
		})
	}
}

func TestHistoriesAgreeWithMemory(t *testing.T) {
	db, store := mattn.Fresh(t, 1)
	drivertest.Histories(t, drivertest.Memory(), suite.Harness(t, db, store, false), 40)
}

func TestViewsOnlyRead(t *testing.T) { suite.Views(t, mattn) }

func TestClockIsTheDatabases(t *testing.T) { suite.Clock(t, mattn) }

func TestLocks(t *testing.T) { suite.Locks(t, mattn) }

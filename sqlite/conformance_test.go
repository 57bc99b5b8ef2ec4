//go:build !race

// The library under test is C turned into Go, and takes ten times as long under the
// race detector. What is here runs on one connection and has no races to show.

package sqlite_test

import (
	"database/sql"
	"testing"

	"github.com/consign-go/consign/internal/driver/drivertest"
	"github.com/consign-go/consign/internal/effort"
	"github.com/consign-go/consign/sqlite/internal/suite"
)

func TestConformanceOnOneConnection(t *testing.T) { conform(t, modernc, 1) }

// TestConformanceInMemory: a database in memory is one connection, and is gone if
// that is ever discarded.
func TestConformanceInMemory(t *testing.T) {
	conform(t, suite.Library{Driver: "sqlite", DSN: func(string, int) string { return ":memory:" }}, 1)
}

// TestConformanceWithoutWAL: with a rollback journal a writer waits for readers too.
// The driver takes the write lock as each transaction begins.
func TestConformanceWithoutWAL(t *testing.T) {
	conform(t, suite.Library{Driver: "sqlite", DSN: func(path string, _ int) string {
		return "file:" + suite.Escaped(path) + "?_pragma=synchronous(OFF)&_txlock=immediate"
	}}, 1)
}

func TestHistoriesAgreeWithMemory(t *testing.T) {
	db, s := modernc.Fresh(t, 1)
	var h drivertest.Harness[*sql.Tx] = suite.Harness(t, db, s, false)
	for range effort.Of(1, 5) {
		drivertest.Histories(t, drivertest.Memory(), h, 40)
	}
}

func TestClockIsTheDatabases(t *testing.T) { suite.Clock(t, modernc) }

package postgres

import (
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/driver/drivertest"
	"github.com/consign-go/consign/internal/effort"
	"github.com/consign-go/consign/postgres/internal/suite"
)

// TestDriver shows the contract of package driver for callers with a pgx.Tx.
func TestDriver(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.Harness[pgx.Tx] {
		d := open(t)
		return suite.PGX(t, d.suite(), d.Driver(driver.Key{}))
	})
}

// TestDriverModes shows it for pools that prepare nothing, as behind a transaction
// pooler.
func TestDriverModes(t *testing.T) {
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			drivertest.Run(t, func(t *testing.T) drivertest.Harness[pgx.Tx] {
				d := open(t) // what the harness itself does is not under test
				return suite.PGX(t, d.suite(), pgxBound{d.in(t, mode)})
			})
		})
	}
}

// TestDriverSQL shows it for callers with a *sql.Tx, over pgx's database/sql
// driver; internal/pqtest does the same over lib/pq.
func TestDriverSQL(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.Harness[*sql.Tx] {
		d := open(t)
		s, _ := openSQL(t, d)
		return suite.SQL(t, d.suite(), s.Driver(driver.Key{}))
	})
}

// TestHistories: random histories give equal answers and equal rows on this store
// and on the memory store, where lifecycle alone decides.
func TestHistories(t *testing.T) {
	d := open(t)
	for range effort.Of(1, 2) {
		drivertest.Histories(t, drivertest.Memory(), suite.PGX(t, d.suite(), d.Driver(driver.Key{})), 40)
	}
}

func (d *database) suite() suite.Database { return suite.Database{Pool: d.pool, Schema: d.schema} }

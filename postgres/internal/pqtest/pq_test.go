package pqtest

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/lib/pq"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/driver/drivertest"
	"github.com/consign-go/consign/internal/lifecycle"
	"github.com/consign-go/consign/internal/migration"
	"github.com/consign-go/consign/internal/pgtest"
	"github.com/consign-go/consign/postgres"
	"github.com/consign-go/consign/postgres/internal/suite"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// open returns a store for transactions of lib/pq, on a schema of the test's own.
func open(t *testing.T) (suite.Database, *sql.DB, *postgres.SQLStore) {
	t.Helper()
	d := suite.Database{Pool: pgtest.Pool(t), Schema: pgtest.Schema(t)}
	db, err := sql.Open("postgres", pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	s, err := postgres.NewSQL(d.Pool, db, &postgres.Options{Schema: d.Schema})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migration.Up(t.Context(), s.Migrations(driver.Key{})); err != nil {
		t.Fatal(err)
	}
	return d, db, s
}

// TestDriver shows the contract of package driver for callers with a *sql.Tx of
// lib/pq.
func TestDriver(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.Harness[*sql.Tx] {
		d, _, s := open(t)
		return suite.SQL(t, d, s.Driver(driver.Key{}))
	})
}

// TestErrorsQuoteNoContent: the error type of lib/pq holds rows in its fields; it
// stays out of reach.
func TestErrorsQuoteNoContent(t *testing.T) {
	const needle = "needle in the haystack"
	_, _, s := open(t)
	bound := s.Driver(driver.Key{})
	insert := func(n driver.New) error {
		_, tx, err := bound.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(t.Context())
		return tx.Insert(t.Context(), []driver.New{n})
	}
	n := driver.New{Intent: driver.Intent{
		Ref: driver.NewID(), Profile: lifecycle.Message, Kind: "mail", Version: needle, Address: needle, Payload: []byte(needle),
	}}
	n.Key = n.Ref
	for what, change := range map[string]func(*driver.New){
		"a shape that is refused": func(*driver.New) {},
		"no UTF-8":                func(n *driver.New) { n.Address = needle + "\xff" },
	} {
		bad := n
		change(&bad)
		err := insert(bad)
		var own *postgres.Error
		if !errors.As(err, &own) || len(own.Code) != 5 {
			t.Errorf("%s: %v, want an error with a SQLSTATE", what, err)
		}
		var raw *pq.Error
		if strings.Contains(fmt.Sprintf("%+v", err), needle) || errors.As(err, &raw) {
			t.Errorf("%s: the error quotes content: %v", what, err)
		}
	}
}

package drivertest

import (
	"context"
	"time"

	"github.com/consign-go/consign/internal/driver"
)

// Harness is one database under test and the few things that the suite does to
// it behind the contract's back. Fields are required unless they say otherwise.
type Harness[TX any] struct {
	// Bound is the driver under test, on a migrated database. One harness is
	// used by many tests, one after the other, with a Reset before each.
	Bound driver.Bound[TX]

	// Reset removes every row of every table of the schema, the setting table's
	// too, and the rows of Write. No transaction is open when it is called.
	Reset func(ctx context.Context) error

	// Shift makes the database believe that d (whole seconds, positive) has
	// passed. Stores have it as [driver.Elapser], so that the suite tests that too.
	Shift func(ctx context.Context, d time.Duration) error

	// Rows returns all rows of a table (the bare name, without schema or prefix:
	// "intent", "delivery", "attempt", "resolution", "run", "approval", "audit",
	// "setting", "program", "program_route", "pause"), each with every column by its name: SELECT * into a map. NULL is
	// nil. Accepted for a uuid: [16]byte, driver.ID, 16 bytes, or 36 characters; a
	// time: time.Time or an integer of TimeUnit since 1970; a truth value: bool or
	// an integer; a number: any integer type; text and bytes: string or []byte. More columns than
	// the schema has are welcome (xmin, ctid): they take part where a row must
	// not have changed by a byte, and nowhere else.
	Rows func(ctx context.Context, table string) ([]map[string]any, error)

	// Put inserts a row into a table, past the contract: what later parts of the
	// program will write there. Values are driver.ID for a uuid, time.Time, int,
	// bool, string, []byte or nil.
	Put func(ctx context.Context, table string, row map[string]any) error

	// Set is UPDATE table SET columns WHERE ref = ref, past the contract and in
	// a transaction of its own. The suite uses it to show that the database itself
	// refuses what must not be. Values are as in Put.
	Set func(ctx context.Context, table string, ref driver.ID, columns map[string]any) error

	// Write puts a row of the caller's own, named key, through tx, as a program
	// writes its domain data. It must fail where tx is read-only.
	Write func(ctx context.Context, tx TX, key string) error

	// Read reports whether tx sees the row that Write put under key.
	Read func(ctx context.Context, tx TX, key string) (bool, error)

	// Now reads the database's clock through tx, as SQL of the caller would.
	// Optional; it is used to show that a view really reaches the database.
	Now func(ctx context.Context, tx TX) (time.Time, error)

	// TimeUnit is the unit of times that Rows returns as integers. Default:
	// time.Microsecond.
	TimeUnit time.Duration

	// Hold takes the row locks that a claim of refs takes and keeps them until
	// release is called, as another claim does in the middle of its work. Optional:
	// nil where the store knows no row locks.
	Hold func(ctx context.Context, refs []driver.ID) (release func() error, err error)

	// Blocked returns how many calls wait for a lock right now, so that a
	// test can be sure that two writers have met. Optional.
	Blocked func(ctx context.Context) (int, error)

	Capabilities
}

// Capabilities say where a store differs from PostgreSQL by its nature.
type Capabilities struct {
	// ConcurrentWriters: other calls can write while a transaction holds
	// uncommitted writes. False for SQLite, which has one writer at a time.
	ConcurrentWriters bool

	// ConcurrentReads: other calls can read while a transaction is open. False
	// for a pool of one connection.
	ConcurrentReads bool
}

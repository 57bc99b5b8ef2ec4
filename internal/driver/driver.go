package driver

import (
	"context"
	"time"

	"github.com/consign-go/consign/internal/lifecycle"
)

// Key is what a public store asks for before it shows its driver. Only this
// module can name it, which seals the Store interface.
type Key struct{}

// Driver is an open database. All methods are safe for concurrent use, work in
// transactions of their own, and return when their writes are durable.
type Driver interface {
	// Claim takes up to the limits asked for, in order of due time per route.
	// Which rows may be claimed, and what becomes of them, is exactly what
	// lifecycle.Policy.Apply answers to EvClaim. Rows that another claim is
	// taking at this moment are passed over. Before it returns the whole result
	// has been read and is durable.
	Claim(ctx context.Context, r ClaimRequest) ([]Claimed, error)

	// Held returns what r.Owner holds, for a claim whose answer was lost.
	Held(ctx context.Context, r ClaimRequest) ([]Claimed, error)

	// Apply compares and sets each transition whose Answer is lifecycle.Apply,
	// all of them in one write, and reports which held. Log rows are written
	// with the change that they belong to. A ref may appear only once.
	Apply(ctx context.Context, ts []lifecycle.Transition) ([]bool, error)

	// Append keeps late evidence: each (ref, generation, number) once. It touches
	// no delivery. Where the delivery was erased meanwhile its texts are left out;
	// where it was pruned nothing is kept.
	Append(ctx context.Context, rows []Logged) error

	// Load returns the records of refs, in any order, absent ones left out.
	// Erased ones are returned without content.
	Load(ctx context.Context, refs []ID) ([]Record, error)

	// History returns the attempt log of ref, oldest first.
	History(ctx context.Context, ref ID) ([]Logged, error)

	// Due returns refs that Claim would take, without taking them.
	Due(ctx context.Context, r ClaimRequest) ([]ID, error)

	// Overdue walks the open deliveries in the order of the due index and returns
	// those whose deadline or lease is over, for lifecycle to decide about. It
	// looks at up to r.Limit rows and returns where to go on; a zero cursor
	// means that the walk has come to the end.
	Overdue(ctx context.Context, r OverdueRequest) ([]Overdue, Cursor, error)

	// Routes returns every route that has open claimable deliveries.
	Routes(ctx context.Context) ([]Route, error)

	// Erase removes the content of every intent, run and approval of these
	// subjects, whatever its status, in one transaction, and returns how many
	// intents it erased. What becomes of each delivery is what lifecycle answers
	// to EvErase; its row stays as the tombstone, with the payload's digest where
	// none was bound. Texts of attempts and resolutions go too. Empty subjects
	// match nothing. The time of approvals that were not consumed is over: without
	// their target they would fit a run that creates one.
	Erase(ctx context.Context, subjects []string) (int, error)

	// Prune removes up to limit terminal records of one profile created strictly
	// before t, with their attempts and resolutions, and returns how many it
	// removed; what waits in review stays. The sum of what it ever removed is kept
	// in the setting "pruned", in the same transaction.
	Prune(ctx context.Context, p lifecycle.Profile, before time.Time, limit int) (int, error)

	// Now reads the database clock.
	Now(ctx context.Context) (time.Time, error)
}

// Tx is a transaction of the database, the caller's or one of [Bound.Begin].
type Tx interface {
	// Schema returns the schema's version and the oldest program version that it
	// still works with. A missing schema is ErrNoSchema.
	Schema(ctx context.Context) (Schema, error)

	// Insert writes intents and their deliveries, in one round trip where no ref
	// was given by the caller. A given ref that exists with identical content
	// (channel, address, payload, task, index, subject) is left as it is; with
	// other content, or erased, Insert returns a *ConflictError and writes none
	// of them.
	Insert(ctx context.Context, rows []New) error

	// OpenRun writes the run before anything is read in it, so that a database
	// with one writer takes its write lock first. Which approval it consumes is
	// written by Consume.
	OpenRun(ctx context.Context, r Run) error

	// SealRun completes the run: security version, target, version, receipt, refs
	// of its work, and the audit row.
	SealRun(ctx context.Context, r Run) error

	ApprovalTx

	// Savepoint begins a part that can be undone alone. Exactly one of the two
	// functions must be called.
	Savepoint(ctx context.Context) (Savepoint, error)

	// Commit returns ErrUnconfirmed where the database may have committed all the
	// same; after any other error nothing was committed.
	Commit(ctx context.Context) error
	Rollback(ctx context.Context) error
}

// Savepoint is a part of a transaction that can be undone alone.
type Savepoint interface {
	Release(ctx context.Context) error
	Rollback(ctx context.Context) error
}

// Bound is a driver together with the transaction type of its callers.
type Bound[TX any] interface {
	Driver
	Approvals
	Runs

	// Join wraps a transaction that the caller owns.
	Join(tx TX) Tx

	// Begin opens a transaction of its own.
	Begin(ctx context.Context) (TX, Tx, error)

	// View runs fn in a read-only transaction: a write through it fails.
	View(ctx context.Context, fn func(tx TX) error) error

	// ViewIn runs fn inside an open transaction, with writes failing until fn
	// returns. Where fn ends the transaction it is ErrClosed.
	ViewIn(ctx context.Context, tx TX, fn func(tx TX) error) error
}

// Runs is what is read of runs.
type Runs interface {
	// Run returns a run that was sealed and committed, and whether there is one.
	Run(ctx context.Context, id ID) (Run, bool, error)
}

// Schema is what a database says of its own tables.
type Schema struct {
	Version int // newest applied migration
	Oldest  int // programs that know less than this version must not use it
}

// SchemaVersion is the schema that this program was built for.
const SchemaVersion = 1

// ClaimRequest asks for deliveries.
type ClaimRequest struct {
	Owner   lifecycle.Token
	Program string // for people; at most 128 bytes
	Routes  []RouteLimit
	Limit   int  // of all routes together, in the order of Routes; 0: no more than their own
	Refs    []ID // only these, if any; the limits still hold

	// Next asks only for what stands next in these tasks, each time behind an index,
	// whatever else is due. It is found by the gate, so that it costs the same however
	// long the task is. Not together with Refs; the limits still hold.
	Next []Step

	// Suspects asks for deliveries that crashed an owner before start (crashes
	// are counted, or they are still leased after their lease), and for nothing
	// else; without it they are left out. They are taken alone, so that one
	// poisonous intent never takes others down with it.
	Suspects bool

	Policy lifecycle.Policy

	// Room is memory that the answer may use instead of new one. Whoever asks must
	// have copied what an earlier answer left there.
	Room []Claimed
}

// Step is where a gated message stands in its task.
type Step struct {
	Task  string
	Index int
}

// RouteLimit is how much of one route is asked for.
type RouteLimit struct {
	Route    string
	Limit    int
	After    Position           // go on behind this one; zero: from the front
	Until    time.Time          // no further than what is due then; zero: now
	Contract lifecycle.Contract // for messages that have none yet
}

// Position is a place in one route's part of the due index.
type Position struct {
	DueAt time.Time
	Ref   ID
}

// Cursor is a place in the due index. The zero cursor is before the first row.
type Cursor struct {
	Route string
	Position
}

// OverdueRequest asks for a part of the walk over open deliveries.
type OverdueRequest struct {
	After Cursor
	Limit int // rows to look at; Default: 1,000
}

// Overdue is a delivery whose deadline or lease is over.
type Overdue struct {
	Ref   ID
	Route string
	State lifecycle.State
}

// Route is a route with open deliveries, and the contract that its oldest one
// was created under.
type Route struct {
	Route       string
	Profile     lifecycle.Profile
	Kind        string
	Version     string
	Fingerprint [32]byte
	OldestDue   time.Time
}

// Registry is what programs tell each other through the database.
type Registry interface {
	// Register writes or renews the entry of a program, with a heartbeat of now.
	// Entries without a heartbeat for a day are removed.
	Register(ctx context.Context, p Program) error

	// Unregister removes the entry.
	Unregister(ctx context.Context, id ID) error

	// Serving returns what programs serve whose heartbeat is younger than within.
	Serving(ctx context.Context, within time.Duration) ([]Serves, error)
}

// Program is a running program as others see it.
type Program struct {
	ID     ID
	Name   string
	Serves []Serves
}

// Serves is a kind or channel that a program delivers.
type Serves struct {
	Profile     lifecycle.Profile
	Kind        string
	Version     string
	Fingerprint [32]byte
	Upgrade     bool // this older version, whatever its fingerprint

	// Contract is what is copied onto what is created anew for it; zero: driven by
	// hand.
	Contract lifecycle.Contract
}

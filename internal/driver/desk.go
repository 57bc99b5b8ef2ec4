package driver

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/consign-go/consign/internal/lifecycle"
)

// Finding is what a person found out about an intent in review. The numbers are
// stored.
type Finding uint8

// The findings.
const (
	FoundDelivered    Finding = 1
	FoundNotDelivered Finding = 2
	FoundAbandoned    Finding = 3
)

// Source is where a finding comes from. The numbers are stored.
type Source uint8

// The sources.
const (
	FromPerson   Source = 1
	FromEvidence Source = 2 // an outcome that came late
	FromProof    Source = 3 // what a receiver signed
)

// Resolution is a finding as it is stored.
type Resolution struct {
	ID         ID
	Ref        ID
	At         time.Time // set by the database
	Finding    Finding
	Source     Source
	Supersedes ID // the finding that this one corrects
	By         string
	Evidence   string // empty once erased
}

// Audited is a row of the audit table.
type Audited struct {
	ID     int64     // set by the database
	At     time.Time // set by the database
	By     string
	Action string
	Ref    ID
	Run    ID
	Reason string
	Before string // without content, as After
	After  string
}

// Pause keeps every program from claiming a kind or channel.
type Pause struct {
	Profile lifecycle.Profile
	Kind    string
	At      time.Time // set by the database
	By      string
	Reason  string
}

// Action is what a person does, all of it in one transaction. What is nil is no
// part of it.
type Action struct {
	// Change is compared and set; where it does not hold nothing is written.
	Change     *lifecycle.Transition
	Resolution *Resolution
	Successor  *New
	Pause      *Pause // entered; where there is one, nothing is written
	Resume     *Pause // removed; where there is none, nothing is written
	Audit      Audited
}

// Acts is what people do to a store. Each call writes its audit row in the same
// transaction.
type Acts interface {
	// Act reports whether the whole action was possible; if not, it wrote nothing.
	Act(ctx context.Context, a *Action) (bool, error)

	// EraseFor is Driver.Erase. After is replaced by how many were erased.
	EraseFor(ctx context.Context, subjects []string, by Audited) (int, error)

	// PruneFor is Driver.Prune. After is replaced by how many were removed; what
	// removes none is not audited.
	PruneFor(ctx context.Context, p lifecycle.Profile, before time.Time, limit int, by Audited) (int, error)
}

// Removed is the After of an audit row about a number of records.
func Removed(n int) string { return `{"removed":` + strconv.Itoa(n) + `}` }

// Pauses is how programs learn what is paused.
type Pauses interface {
	// Pauses returns all pauses, by profile and kind.
	Pauses(ctx context.Context) ([]Pause, error)
}

// Place is a place in a list.
type Place struct {
	Route string // where the list is ordered by it
	At    time.Time
	Ref   ID
}

// Among is a part of the deliveries that can be walked through by an index.
type Among uint8

// The parts. Together Open, InProcess and Ended are all deliveries, but for what
// was erased and for stranded messages that a person has resolved.
const (
	// Open may still be claimed, or is held: in the order of due times by route.
	Open Among = iota
	// InProcess was started by a process that owns its retries: in the order of
	// lease ends.
	InProcess
	// Ended has one terminal status: the newest first.
	Ended
	// OfSubject belongs to one subject, whatever the status: in the order of refs.
	OfSubject
)

// WalkRequest asks for a part of a walk. Erased deliveries are never found.
type WalkRequest struct {
	Among    Among
	Profile  lifecycle.Profile  // zero, for OfSubject alone: both
	Statuses []lifecycle.Status // empty: any; of Ended exactly one
	Kind     string             // empty: any
	Code     lifecycle.Code     // empty: any
	Subject  string             // of OfSubject
	From     time.Time          // created then or later; zero: any
	Before   time.Time          // created earlier; zero: any
	After    Place              // zero: from the front
	Limit    int                // rows to look at
}

// Tally is a number of deliveries that have something in common. Capped says that
// only so many were looked at.
type Tally struct {
	Among   Among // Open, InProcess or Ended
	Profile lifecycle.Profile
	Status  lifecycle.Status
	Kind    string
	N       int
	Capped  bool
}

// InReview is how many deliveries wait for a person, since when the oldest does.
type InReview struct {
	N      int
	Capped bool
	Oldest time.Time
}

// RecentRequest asks how what was created lately has ended.
type RecentRequest struct {
	From  time.Time     // where the first part begins
	Part  time.Duration // how long each is; whole microseconds
	Parts int
	Limit int // rows to count of each profile, status and part, and one more
}

// RecentEnd is how many deliveries of one part have ended with a status.
type RecentEnd struct {
	Profile lifecycle.Profile
	Status  lifecycle.Status
	Place   int // of the part, from 0
	N       int // at most the limit and one more
}

// Chained says how an intent follows another.
type Chained struct {
	Asked       ID // the ref of the call in whose chain it is
	Ref         ID
	Predecessor ID // zero: none, or no longer known
	Link        Link
}

// AuditRequest asks for audit rows, the newest first.
type AuditRequest struct {
	Ref    ID    // zero: of all
	Before int64 // rows with a smaller ID; 0: from the newest
	Limit  int
}

// Lists is what people look at. Each call reads a bounded part of the tables.
type Lists interface {
	// Review returns up to limit deliveries that wait for a person, the longest
	// waiting first. A Place's time is since when it waits.
	Review(ctx context.Context, after Place, limit int) ([]Place, error)

	// Walk looks at up to r.Limit deliveries and returns those that match, and where
	// to go on; a zero place means that the walk has come to its end.
	Walk(ctx context.Context, r WalkRequest) ([]Place, Place, error)

	// Tallies counts deliveries by part, profile, status and kind. Of each route that
	// is open, of each profile and status that is ended, and of what is in process it
	// looks at up to limit.
	Tallies(ctx context.Context, limit int) ([]Tally, error)

	// Recent counts what was created in each part and has ended, whatever was erased
	// of it. Parts with nothing in them are left out.
	Recent(ctx context.Context, r RecentRequest) ([]RecentEnd, error)

	// InReview counts up to limit of what Review returns.
	InReview(ctx context.Context, limit int) (InReview, error)

	// Chains returns, for each of refs, all intents of its chain, itself included,
	// in any order.
	Chains(ctx context.Context, refs []ID) ([]Chained, error)

	// Logs returns the attempt logs of refs, each oldest first.
	Logs(ctx context.Context, refs []ID) ([]Logged, error)

	// Resolutions returns the findings about refs, each oldest first.
	Resolutions(ctx context.Context, refs []ID) ([]Resolution, error)

	// Audits returns audit rows.
	Audits(ctx context.Context, r AuditRequest) ([]Audited, error)
}

// Desk is everything that operators ask of a store.
type Desk interface {
	Driver
	Registry
	Acts
	Lists
	Pauses
}

// routeMark is how long the fingerprint is in the name of a work route.
const routeMark = 16

// KindOf returns profile and kind of a route.
func KindOf(route string) (lifecycle.Profile, string) {
	if kind, ok := strings.CutPrefix(route, "m:"); ok {
		return lifecycle.Message, kind
	}
	kind, _ := strings.CutPrefix(route, "w:")
	return lifecycle.Work, kind[:max(len(kind)-routeMark-1, 0)]
}

// RouteRange returns the range low <= route < high in which all routes of a kind
// lie, or of a profile where kind is empty.
func RouteRange(p lifecycle.Profile, kind string) (low, high string) {
	switch {
	case p == lifecycle.Message && kind == "":
		return "m:", "m;"
	case p == lifecycle.Message:
		return "m:" + kind, "m:" + kind + "\x01" // no kind has a character below a space
	case kind == "":
		return "w:", "w;"
	}
	return "w:" + kind + ":", "w:" + kind + ";"
}

// Matches reports whether a delivery is one that r asks for.
func (r *WalkRequest) Matches(route string, s lifecycle.Status, code lifecycle.Code, created time.Time) bool {
	p, kind := KindOf(route)
	if r.Profile != 0 && r.Profile != p || r.Kind != "" && r.Kind != kind || r.Code != "" && r.Code != code {
		return false
	}
	if !r.From.IsZero() && created.Before(r.From) || !r.Before.IsZero() && !created.Before(r.Before) {
		return false
	}
	for _, want := range r.Statuses {
		if want == s {
			return true
		}
	}
	return len(r.Statuses) == 0
}

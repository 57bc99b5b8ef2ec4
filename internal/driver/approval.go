package driver

import (
	"context"
	"time"

	"github.com/consign-go/consign/internal/lifecycle"
)

// ApprovalStatus is where an approval stands. The numbers are stored.
type ApprovalStatus uint8

// The statuses. The last two are ends.
const (
	ApprovalOpen      ApprovalStatus = 0
	ApprovalConfirmed ApprovalStatus = 1
	ApprovalDismissed ApprovalStatus = 2
	ApprovalConsumed  ApprovalStatus = 3
)

// Approval is what a person is asked to sign off before an operation runs. After
// an erasure target, subject, input and the two texts are gone.
type Approval struct {
	ID             ID
	Operation      string
	Actor          string
	Tenant         string
	Target         string // empty: the operation creates it
	Subject        string
	Input          []byte // canonical JSON
	InputDigest    lifecycle.Digest
	Proposer       string
	Reason         string // why it is proposed
	OtherConfirmer bool   // the proposer may not confirm it

	Status   ApprovalStatus
	By       string // who confirmed or dismissed it
	Decision string // and why
	Run      ID     // that consumed it

	CreatedAt  time.Time // set by the database, as all of these
	ExpiresAt  time.Time
	DecidedAt  time.Time
	ConsumedAt time.Time

	// Expired: its time was over on the database clock when it was read. It says
	// nothing about what was consumed.
	Expired bool
}

// Approvals is what is read of approvals outside of a transaction.
type Approvals interface {
	// Approval returns an approval, and whether there is one.
	Approval(ctx context.Context, id ID) (Approval, bool, error)

	// OpenApprovals lists those that wait for a person and have not expired, in the
	// order in which they will.
	OpenApprovals(ctx context.Context, q OpenApprovals) ([]Approval, error)
}

// OpenApprovals asks for a part of the list.
type OpenApprovals struct {
	Tenant string // empty: of all tenants
	After  ApprovalCursor
	Limit  int
}

// ApprovalCursor is a place in the list. The zero one is before the first.
type ApprovalCursor struct {
	ExpiresAt time.Time
	ID        ID
}

// ApprovalTx is the part of a transaction that writes approvals. Who may change
// one is decided by the caller, between LockApproval and the change: nobody else
// changes an approval while a transaction has it locked.
type ApprovalTx interface {
	// Propose writes an open approval that expires after ttl, and its audit row.
	// Status, times and what is said of the decision are not looked at.
	Propose(ctx context.Context, a Approval, ttl time.Duration) error

	// LockApproval reads an approval as it is committed now, and whether there is
	// one. Others that want to lock it wait until this transaction ends.
	LockApproval(ctx context.Context, id ID) (Approval, bool, error)

	// Decide confirms or dismisses an approval that is open, writes the audit row,
	// and returns when that was. An approval that is not open is an error.
	Decide(ctx context.Context, d Decision) (time.Time, error)

	// Consume marks an approval that is confirmed as consumed by the run, which
	// this transaction has opened, and the run as having consumed it. An approval
	// that is not confirmed is an error.
	Consume(ctx context.Context, approval, run ID) error
}

// Decision is what a person says about an open approval.
type Decision struct {
	Approval ID
	Status   ApprovalStatus // ApprovalConfirmed or ApprovalDismissed
	By       string
	Why      string
}

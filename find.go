package consign

import (
	"context"
	"encoding/json"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Profile says which of the two shapes an intent has: "work" or "message".
type Profile string

// The two profiles.
const (
	ProfileWork    Profile = "work"
	ProfileMessage Profile = "message"
)

// Status is where a delivery stands. Work shows every status by its own name,
// messages exactly StatusPending, StatusDelivering, StatusDelivered and
// StatusFailed.
type Status string

// The statuses. The last five are ends: they never change.
const (
	StatusPending                Status = "pending"
	StatusLeased                 Status = "leased"
	StatusDelivering             Status = "delivering"
	StatusDelivered              Status = "delivered"
	StatusSucceeded              Status = "succeeded"
	StatusFailed                 Status = "failed"
	StatusCancelled              Status = "cancelled"
	StatusReconciliationRequired Status = "reconciliation_required"
)

// Intent is what is stored about one intent and its delivery.
type Intent struct {
	Ref         Ref
	Profile     Profile
	Kind        string // the kind of work, or the channel of a message
	DeliveryKey ID     // what the far side deduplicates on
	Payload     json.RawMessage

	To      string // of a message, as Task and Index
	Task    string
	Index   int
	Subject string

	Run    ID     // of work, as Key and Target
	Key    string // unique within the run
	Target string

	Status     Status
	Code       Code // why it stands there; empty: nothing to say
	Uncertain  bool // some effect may have happened and nobody knows
	Attempts   int
	Generation int64
	LastError  string

	CreatedAt time.Time // by the database's clock, as all of these
	UpdatedAt time.Time
	DueAt     time.Time // zero: nobody will start it
	Deadline  time.Time // zero: none
}

// Find returns what is stored under ref. An intent that does not exist, or was
// erased, is ErrNotFound.
func (o *Outbox[TX]) Find(ctx context.Context, ref Ref) (Intent, error) {
	found, err := o.bound.Load(ctx, []driver.ID{driver.ID(ref.ID)})
	if err != nil {
		return Intent{}, failure("find", err)
	}
	if len(found) == 0 || found[0].State.Erased {
		return Intent{}, &Error{Op: "find", Err: ErrNotFound}
	}
	r := &found[0]
	i := Intent{
		Ref: ref, Profile: ProfileWork, Kind: r.Intent.Kind, DeliveryKey: ID(r.Intent.Key), Payload: r.Intent.Payload,
		To: r.Intent.Address, Task: r.Intent.Task, Index: r.Intent.Index, Subject: r.Intent.Subject,
		Run: ID(r.Intent.Run), Key: r.Intent.WorkKey, Target: r.Intent.Target,
		Status: Status(r.State.Status.Public(r.Intent.Profile)), Code: r.State.Code, Uncertain: r.State.Uncertain,
		Attempts: r.State.Attempts, Generation: r.State.Generation, LastError: r.LastError,
		CreatedAt: r.Intent.CreatedAt, UpdatedAt: r.UpdatedAt, DueAt: r.DueAt, Deadline: r.Deadline,
	}
	if r.Intent.Profile == lifecycle.Message {
		i.Profile = ProfileMessage
	}
	return i, nil
}

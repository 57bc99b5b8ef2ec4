package operator

import (
	"encoding/json"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Known is what is known about the effect of an intent.
type Known string

// What can be known. Nothing that is unknown is ever called not delivered: only a
// person's finding, which stands beside it, says that.
const (
	KnownOpen      Known = "open"          // it may still be delivered
	KnownDelivered Known = "delivered"     // a success was observed
	KnownNot       Known = "not delivered" // certainly: every attempt ended in a definite no, or there was none
	KnownNothing   Known = "unknown"       // an effect may have happened and nobody knows
)

// Summary is what lists show of an intent: nothing of its content.
type Summary struct {
	Ref        consign.Ref
	Profile    consign.Profile // empty once erased
	Kind       string          // the kind of work, or the channel; empty once erased
	Status     consign.Status
	Code       consign.Code
	Known      Known
	Uncertain  bool // some effect may have happened and nobody knows
	Stranded   bool // a started message that nothing drives any more
	Erased     bool
	Attempts   int
	Generation int64
	Revision   int64 // rises with every change

	CreatedAt time.Time // by the database's clock, as all of these; zero: none
	UpdatedAt time.Time
	DueAt     time.Time
	Deadline  time.Time
	StartedAt time.Time // of the newest attempt
	ReviewAt  time.Time // since when it waits for a person, or will
	ErasedAt  time.Time
	Program   string // that made the newest claim
}

// Entry is everything that is known about an intent.
type Entry struct {
	Summary

	// Means and Do are the advice for it, the unknown outcome first.
	Means string
	Do    string

	// Answer is what is known beside the record: FoundDelivered where a success under
	// this delivery key was observed late, or its receiver signed that it executed the
	// request; empty where nothing answers the question. Proven says that it is signed.
	Answer Outcome
	Proven bool

	// Evidence is the attempt log of the whole chain. What answers the question comes
	// first, then what came late, each the newest first.
	Evidence []Evidence

	// Resolutions are the findings about this intent, oldest first; Current is the one
	// that no other supersedes.
	Resolutions []Resolution
	Current     *Resolution

	// Chain is every intent that was sent for the same thing, first to last. What was
	// erased or removed is no longer in it.
	Chain []Link

	// Choices are what can be done, and why not.
	Choices []Choice

	LastError    string
	DeliveryKey  consign.ID
	Digest       [32]byte // of the bound request; zero: none is bound
	MaxAttempts  int      // 0: no limit
	Idempotent   bool
	Contract     Contract // that decides about this intent; zero once erased
	OwnerMayLive bool     // the last owner never said how it ended, and may still be at it

	// Content is what was stored to be delivered. Lists leave it out; nil once erased.
	Content *Content
}

// Content is what an intent says, and on whose behalf.
type Content struct {
	Payload json.RawMessage
	Subject string
	Trace   string

	To    string // of messages, as Task and Index
	Task  string
	Index int

	Run             consign.ID // of work, as all below
	Key             string
	Version         string
	Operation       string
	Actor           string
	Tenant          string
	SecurityVersion string
	Target          string
	TargetVersion   string
}

// Evidence is one row of the attempt log of an intent of the chain.
type Evidence struct {
	Ref        consign.Ref
	Generation int64
	Number     int
	Outcome    string // "not_sent", "refused", "rejected", "unknown", "accepted", "crashed"
	Code       consign.Code
	Error      string
	HTTPStatus int
	Late       bool   // it was seen after the claim was lost
	Proof      string // what the receiver signed, checked when it came; empty: nothing, or once erased
	Answers    bool   // it settles what is unknown
	StartedAt  time.Time
	At         time.Time
}

// Link is one intent of a chain.
type Link struct {
	Summary
	Predecessor consign.Ref
	How         string  // "first", "redelivery", "reissue"
	Found       Outcome // the current finding about it; empty: there is none
}

// Action names something that can be done about an intent.
type Action string

// The actions about one intent.
const (
	ActResolve   Action = "resolve"
	ActProve     Action = "prove"
	ActRedeliver Action = "redeliver"
	ActReissue   Action = "reissue"
	ActCancel    Action = "cancel"
)

// Choice is an action with what speaks against it.
type Choice struct {
	Action  Action
	Refused string // why it is not possible; empty: it is
	Warning string // what to think about first
}

// summary is what lists show of a record.
func summary(r *driver.Record) Summary {
	s := &r.State
	p := r.Intent.Profile
	if p == 0 {
		p = s.Profile
	}
	out := Summary{
		Ref: consign.Ref{ID: consign.ID(r.Intent.Ref)}, Kind: r.Intent.Kind, Status: consign.Status(s.Status.Public(p)), Code: s.Code,
		Uncertain: uncertain(s), Stranded: s.Stranded(), Erased: s.Erased, Attempts: s.Attempts,
		Generation: s.Generation, Revision: s.Revision,
		CreatedAt: r.Intent.CreatedAt, UpdatedAt: r.UpdatedAt, DueAt: r.DueAt, Deadline: r.Deadline, StartedAt: r.StartedAt,
		ReviewAt: r.ReviewAt, ErasedAt: r.ErasedAt, Program: r.Program,
	}
	switch {
	case s.Status == lifecycle.Succeeded:
		out.Known = KnownDelivered
	case out.Uncertain:
		out.Known = KnownNothing
	case s.Status.Terminal(), out.Stranded, s.Erased:
		out.Known = KnownNot
	default:
		out.Known = KnownOpen
	}
	if !s.Erased {
		out.Profile = profileOf(p)
	}
	return out
}

// doubt calls unknown what the record calls certain and a proof that was handed in
// contradicts: the far side has said two things. found is about any intents.
func (s *Summary) doubt(found []driver.Resolution) {
	for i := range found {
		if f := &found[i]; s.Known == KnownNot && f.Source == driver.FromProof && f.Ref == driver.ID(s.Ref.ID) {
			s.Known = KnownNothing
		}
	}
}

func profileOf(p lifecycle.Profile) consign.Profile {
	if p == lifecycle.Message {
		return consign.ProfileMessage
	}
	return consign.ProfileWork
}

// uncertain reports whether an effect may have happened and nobody knows. What is in
// flight is open while its lease runs, and unknown once it is stranded.
func uncertain(s *lifecycle.State) bool { return s.Uncertain || s.Stranded() && s.InFlight }

// ownerMayLive reports whether the last owner never said how it ended: a paused
// process cannot be recalled.
func ownerMayLive(s *lifecycle.State) bool {
	return uncertain(s) && (s.Owner == lifecycle.Token{} || s.Stranded())
}

func content(i *driver.Intent) *Content {
	return &Content{
		Payload: i.Payload, Subject: i.Subject, Trace: i.Trace, To: i.Address, Task: i.Task, Index: i.Index,
		Run: consign.ID(i.Run), Key: i.WorkKey, Version: i.Version, Operation: i.Operation, Actor: i.Actor, Tenant: i.Tenant,
		SecurityVersion: i.SecurityVersion, Target: i.Target, TargetVersion: i.TargetVersion,
	}
}

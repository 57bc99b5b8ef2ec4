package approval

import (
	"encoding/json"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
)

// Status is where an approval stands.
type Status string

// The statuses. Only an open one can be decided and only a confirmed one consumed;
// the others are ends.
const (
	Open      Status = "open"
	Confirmed Status = "confirmed"
	Dismissed Status = "dismissed"
	Consumed  Status = "consumed"
	Expired   Status = "expired" // open or confirmed when its time was over
)

// Approval is what is stored about one. An erasure of its subject takes Target,
// Subject, Input and the two reasons, and ends its time.
type Approval struct {
	ID        consign.ID
	Operation string
	Actor     consign.Entity
	Tenant    consign.Entity
	Target    consign.Entity // zero: the operation creates it, or erased
	Subject   string

	// Input is what the operation is asked to do, in canonical form: what is shown
	// to whoever decides. InputDigest is the SHA-256 of it, and what a run's input
	// is held against.
	Input       json.RawMessage
	InputDigest [32]byte

	Proposer       consign.Entity
	Reason         string // why it is proposed
	OtherConfirmer bool   // the proposer may not confirm it

	Status   Status
	By       consign.Entity // who confirmed or dismissed it; zero: nobody
	Decision string         // and why
	Run      consign.ID     // that consumed it; zero: none

	CreatedAt  time.Time // by the database's clock, as all of these
	ExpiresAt  time.Time
	DecidedAt  time.Time // zero: not decided
	ConsumedAt time.Time // zero: not consumed
}

// public is a stored approval as it is shown.
func public(a *driver.Approval) (Approval, error) {
	p := Approval{
		ID: consign.ID(a.ID), Operation: a.Operation, Subject: a.Subject, Input: a.Input, InputDigest: a.InputDigest,
		Reason: a.Reason, OtherConfirmer: a.OtherConfirmer, Status: statusOf(a), Decision: a.Decision, Run: consign.ID(a.Run),
		CreatedAt: a.CreatedAt, ExpiresAt: a.ExpiresAt, DecidedAt: a.DecidedAt, ConsumedAt: a.ConsumedAt,
	}
	for _, e := range []struct {
		to   *consign.Entity
		text string
	}{{&p.Actor, a.Actor}, {&p.Tenant, a.Tenant}, {&p.Target, a.Target}, {&p.Proposer, a.Proposer}, {&p.By, a.By}} {
		if e.text == "" {
			continue
		}
		var err error
		if *e.to, err = consign.ParseEntity(e.text); err != nil {
			return Approval{}, err
		}
	}
	return p, nil
}

func statusOf(a *driver.Approval) Status {
	switch {
	case a.Status == driver.ApprovalConsumed:
		return Consumed
	case a.Status == driver.ApprovalDismissed:
		return Dismissed
	case a.Expired:
		return Expired
	case a.Status == driver.ApprovalConfirmed:
		return Confirmed
	}
	return Open
}

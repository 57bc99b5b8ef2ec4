package approval

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
)

// Proposal is what a person is asked to sign off.
type Proposal struct {
	// Admission is what shall run, as it will be given to Run or Join once it is
	// confirmed. Its Approval stays zero. Its Input is stored, so that whoever
	// decides sees it, until its Subject is erased.
	Admission consign.Admission

	// Proposer is who asks for it: a person, a program, an agent.
	Proposer consign.Entity

	// Reason is why it is proposed, for whoever decides: at most 1,024 bytes of
	// UTF-8 without NUL. Default: not said.
	Reason string

	// TTL is how long it can be confirmed and consumed, 1 s to 90 days.
	// Default: 24 h.
	TTL time.Duration
}

// The limits of a proposal's time.
const (
	DefaultTTL = 24 * time.Hour
	MinTTL     = time.Second
	MaxTTL     = 90 * 24 * time.Hour
)

const maxReason = 1024

// Propose writes a proposal in the caller's transaction: it commits with it or not
// at all, so that a draft and the question about it appear together.
//
// Errors: consign.ErrInvalid with every fault, ErrClosed, ErrSchema, or the
// database's own. After ErrInvalid the transaction is as it was.
func (a *Approvals[TX]) Propose(ctx context.Context, tx TX, p Proposal) (consign.ID, error) {
	row, err := p.row()
	if err != nil {
		return consign.ID{}, err
	}
	dtx := a.bound.Join(tx)
	err = a.outbox.Ready(ctx, driver.Key{}, dtx)
	if err == nil {
		err = dtx.Propose(ctx, row, p.ttl())
	}
	if err != nil {
		return consign.ID{}, consign.Failure(driver.Key{}, opPropose, err)
	}
	return consign.ID(row.ID), nil
}

// ProposeNow writes a proposal in a transaction of its own. If the database does
// not confirm the commit, the proposal is looked up; when that does not settle it,
// the error is consign.ErrUnconfirmed and comes with the ID to look for.
func (a *Approvals[TX]) ProposeNow(ctx context.Context, p Proposal) (consign.ID, error) {
	row, err := p.row()
	if err != nil {
		return consign.ID{}, err
	}
	err = a.within(ctx, opPropose, func(tx driver.Tx) error { return tx.Propose(ctx, row, p.ttl()) },
		func(*driver.Approval) bool { return true }, row.ID)
	if err != nil && !errors.Is(err, consign.ErrUnconfirmed) {
		return consign.ID{}, err
	}
	return consign.ID(row.ID), err
}

const opPropose = "propose"

func (p *Proposal) ttl() time.Duration {
	if p.TTL == 0 {
		return DefaultTTL
	}
	return p.TTL
}

// row checks a proposal and makes its row.
func (p *Proposal) row() (driver.Approval, error) {
	run, input, wrong := p.Admission.Bind(driver.Key{})
	if !p.Admission.Approval.IsZero() {
		wrong = append(wrong, consign.Fault{Field: "approval", Rule: "is set; a proposal gets an ID of its own"})
	}
	wrong = append(wrong, entityFaults("proposer", p.Proposer)...)
	wrong = append(wrong, textFaults("reason", p.Reason)...)
	if ttl := p.ttl(); ttl < MinTTL || ttl > MaxTTL {
		wrong = append(wrong, consign.Fault{Field: "ttl", Rule: ttl.String() + ", limit " + MinTTL.String() + " to " + MaxTTL.String()})
	}
	if len(wrong) > 0 {
		return driver.Approval{}, &consign.Error{Op: opPropose, Faults: wrong, Err: consign.ErrInvalid}
	}
	return driver.Approval{
		ID: driver.NewID(), Operation: run.Operation, Actor: run.Actor, Tenant: run.Tenant, Target: run.Target,
		Subject: run.Subject, Input: input, InputDigest: run.InputDigest, Proposer: p.Proposer.String(), Reason: p.Reason,
		OtherConfirmer: p.Admission.Operation.Approval == consign.OtherConfirmer,
	}, nil
}

// entityFaults checks an entity by the rules of package consign.
func entityFaults(field string, e consign.Entity) []consign.Fault {
	back, err := consign.ParseEntity(e.String())
	if err == nil && back == e {
		return nil
	}
	var fault *consign.Error
	if e == (consign.Entity{}) || !errors.As(err, &fault) {
		return []consign.Fault{{Field: field, Rule: `is no entity, want a type without a colon and an id`}}
	}
	var faults []consign.Fault
	for _, f := range fault.Faults {
		faults = append(faults, consign.Fault{Field: field + strings.TrimPrefix(f.Field, "entity"), Rule: f.Rule})
	}
	return faults
}

// textFaults checks what people say.
func textFaults(field, s string) []consign.Fault {
	switch {
	case len(s) > maxReason:
		return []consign.Fault{{Field: field, Rule: strconv.Itoa(len(s)) + " bytes, limit " + strconv.Itoa(maxReason)}}
	case !utf8.ValidString(s):
		return []consign.Fault{{Field: field, Rule: "is not valid UTF-8"}}
	case strings.ContainsRune(s, 0):
		return []consign.Fault{{Field: field, Rule: "contains a NUL"}}
	}
	return nil
}

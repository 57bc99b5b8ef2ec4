package operator

import (
	"context"
	"fmt"
	"slices"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Sent is an intent that was sent again.
type Sent struct {
	Ref     consign.Ref // of the new intent
	Key     consign.ID  // its delivery key
	Warning string      // what to keep an eye on; empty: nothing
}

// Redeliver sends an intent again under the same delivery key, as a new intent linked
// to it: the same payload, bound digest, uncertain mark, run, actor, tenant and
// committed version, under the contract that live programs serve it with now, with a
// new attempt budget and deadline. Authority is checked afresh when it is delivered.
//
// It is allowed where the old one is certain not to have been delivered, or where
// both the old contract and the present one are idempotent. It is not for what was
// delivered, is open, was erased, was sent again already, or was stopped for a changed
// record, a changed request or revoked authority: run the operation again for those.
//
// Errors: consign.ErrInvalid, consign.ErrNotFound (also once erased), ErrRefused with
// the reason, ErrChanged where somebody else has sent it again, and the database's
// own.
func (o *Operator) Redeliver(ctx context.Context, by By, ref consign.Ref) (Sent, error) {
	return o.again(ctx, ActRedeliver, by, ref, nil)
}

// Reissue sends an intent again under a fresh delivery key, so that a far side which
// knows the old one takes it for another. It is [Operator.Redeliver] otherwise, and
// allowed where the old one is certain not to have been delivered, or where the
// current finding says so. The result warns where the last owner never said how it
// ended: a process that was only paused may still send under the old key.
func (o *Operator) Reissue(ctx context.Context, by By, ref consign.Ref) (Sent, error) {
	return o.again(ctx, ActReissue, by, ref, nil)
}

// again is both. revision, if not nil, is the only one at which it is wanted.
func (o *Operator) again(ctx context.Context, act Action, by By, ref consign.Ref, revision *int64) (Sent, error) {
	op := string(act)
	var fs faults
	fs.by(by)
	fs.ref(ref)
	if err := fs.err(op); err != nil {
		return Sent{}, err
	}
	var sent Sent
	err := o.decide(ctx, op, ref, func(v *view) (*driver.Action, error) {
		if revision != nil && v.record.State.Revision != *revision {
			return nil, changed(op, "it has changed since the preview")
		}
		if err := o.recall(ctx, v); err != nil {
			return nil, failure(op, err)
		}
		n, err := v.next(act)
		if err != nil {
			return nil, err
		}
		sent = Sent{Ref: consign.Ref{ID: consign.ID(n.Ref)}, Key: consign.ID(n.Key), Warning: v.warning(act)}
		a := v.action(by, op, lifecycle.EvResolved)
		a.Successor = n
		return a.tell(v, told{Successor: n.Ref.String(), Key: n.Key.String(), Warning: sent.Warning}), nil
	}, func(v *view) bool {
		next, there := v.successor()
		return there && next == driver.ID(sent.Ref.ID)
	})
	if err != nil {
		return Sent{}, err
	}
	return sent, nil
}

// recall looks into the audit for a successor that retention has removed: a stranded
// message outlives what was sent in its place.
func (o *Operator) recall(ctx context.Context, v *view) error {
	if _, there := v.successor(); there || !v.record.State.Stranded() {
		return nil
	}
	for before := int64(0); ; {
		rows, err := o.desk.Audits(ctx, driver.AuditRequest{Ref: v.record.Intent.Ref, Before: before, Limit: 100})
		if err != nil {
			return err
		}
		for i := range rows {
			if a := Action(rows[i].Action); a == ActRedeliver || a == ActReissue {
				v.sent = &rows[i]
				return nil
			}
			before = rows[i].ID
		}
		if len(rows) < 100 {
			return nil
		}
	}
}

// next is the intent that follows this one, or why there can be none.
func (v *view) next(act Action) (*driver.New, error) {
	if err := v.maySend(act); err != nil {
		return nil, err
	}
	n := &driver.New{Intent: v.record.Intent, Bound: v.record.State.Digest, Uncertain: uncertain(&v.record.State)}
	n.Ref, n.Predecessor, n.Link = driver.NewID(), v.record.Intent.Ref, driver.Redelivery
	if act == ActReissue {
		n.Link, n.Key, n.Bound, n.Uncertain = driver.Reissue, n.Ref, lifecycle.Digest{}, false
	}
	s, err := v.contract(string(act))
	if err != nil {
		return nil, err
	}
	if n.Uncertain && !s.Contract.Idempotent {
		return nil, refused(string(act), "the outcome is unknown, and the present contract is not idempotent: "+
			"the far side may act twice; find out what happened, then reissue")
	}
	n.Contract, n.Version, n.Fingerprint = s.Contract, s.Version, s.Fingerprint
	return n, nil
}

// maySend says why it cannot be sent again, whatever programs serve.
func (v *view) maySend(act Action) error {
	op, s := string(act), &v.record.State
	if s.Erased {
		return &consign.Error{Op: op, Err: consign.ErrNotFound}
	}
	if next, there := v.successor(); there {
		return changed(op, fmt.Sprintf("it has been sent again as %s; only the end of a chain can be", next))
	}
	if v.sent != nil {
		return changed(op, fmt.Sprintf("%s has sent it again; what was sent has been removed by retention", v.sent.By))
	}
	switch {
	case s.Status == lifecycle.Succeeded:
		return refused(op, "it was delivered")
	case !s.Status.Terminal() && !s.Stranded():
		return refused(op, "it is still open")
	case incurable[s.Code]:
		return refused(op, string(s.Code)+" is not cured by sending again: run the operation again")
	}
	if l := v.accepted(driver.ID{}); l != nil && l.Proof != "" {
		return refused(op, "the receiver signed that it executed it: accept its proof as the finding")
	} else if l != nil {
		return refused(op, "a success was observed late: accept that evidence as the finding")
	}
	if f := v.foundAgainst(); f != nil && f.Ref != v.record.Intent.Ref {
		return refused(op, fmt.Sprintf("%s has found %q of %s, which was sent for the same thing; where that is wrong, supersede it first",
			f.By, outcomeOf(f.Finding), f.Ref))
	} else if f != nil {
		return refused(op, fmt.Sprintf("%s has found %q; where that is wrong, supersede it first", f.By, outcomeOf(f.Finding)))
	}
	f := v.current()
	switch {
	case !uncertain(s):
		return nil
	case act == ActReissue && f == nil:
		return refused(op, "the outcome is unknown: find out from the far side, and record it, before a fresh key")
	case act == ActRedeliver && !s.Contract.Idempotent:
		return refused(op, "the outcome is unknown, and it was not created as idempotent: "+
			"the far side may act twice; find out what happened, then reissue")
	}
	return nil
}

// warning is what to think about before sending again.
func (v *view) warning(act Action) string {
	if act == ActReissue && ownerMayLive(&v.record.State) {
		return "the last owner never said how it ended: a process that was only paused may still send under the old key"
	}
	return ""
}

// contract returns what live programs serve the intent with now. The version is the
// intent's own where a program upgrades from it.
func (v *view) contract(op string) (driver.Serves, error) {
	i := &v.record.Intent
	var exact, upgraded, others []driver.Serves
	for _, s := range v.serving {
		if s.Profile != i.Profile || s.Kind != i.Kind {
			continue
		}
		switch {
		case s.Upgrade && s.Version == i.Version:
			s.Fingerprint = i.Fingerprint
			upgraded = append(upgraded, s)
		case s.Upgrade:
		case s.Fingerprint == i.Fingerprint:
			s.Version = i.Version
			exact = append(exact, s)
		default:
			others = append(others, s)
		}
	}
	for _, list := range [][]driver.Serves{exact, upgraded, others} {
		slices.SortFunc(list, func(a, b driver.Serves) int { return slices.Compare(a.Fingerprint[:], b.Fingerprint[:]) })
		list = slices.Compact(list)
		if len(list) > 1 {
			return driver.Serves{}, refused(op, "live programs serve it under different contracts: wait until the deploy is over")
		}
		if len(list) == 1 {
			return list[0], nil
		}
	}
	if i.Profile == lifecycle.Message {
		return driver.Serves{}, nil // the first program that knows the channel brings its contract
	}
	return driver.Serves{}, refused(op, "no live program serves this kind, so there is no contract to send it under")
}

// choices are what can be done about the intent.
func (v *view) choices() []Choice {
	choice := func(a Action, err error) Choice {
		c := Choice{Action: a}
		if err != nil {
			c.Refused = reason(err)
		} else {
			c.Warning = v.warning(a)
		}
		return c
	}
	_, redeliver := v.next(ActRedeliver)
	_, reissue := v.next(ActReissue)
	return []Choice{
		choice(ActResolve, v.mayResolve("resolve")), choice(ActProve, v.mayProve("prove")), choice(ActRedeliver, redeliver), choice(ActReissue, reissue),
		choice(ActCancel, v.mayCancel("cancel")),
	}
}

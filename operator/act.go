package operator

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// decide carries out what think makes of an intent. Where somebody was faster it is
// read and thought about anew: a program at work is no reason to bother a person,
// and what another person did is told by think. seen recognises the action after a
// commit that was not confirmed.
func (o *Operator) decide(ctx context.Context, op string, ref consign.Ref, think func(v *view) (*driver.Action, error), seen func(v *view) bool) error {
	if err := o.ready(ctx, op); err != nil {
		return err
	}
	id, lost := driver.ID(ref.ID), false
	for range o.retry {
		v, err := o.view(ctx, op, id)
		if err != nil {
			return err
		}
		a, err := think(v)
		var no *consign.Error
		if lost && errors.Is(err, ErrRefused) && errors.As(err, &no) {
			return changed(op, no.Err.Error()) // it was possible a moment ago
		}
		if err != nil {
			return err
		}
		held, err := o.desk.Act(ctx, a)
		switch {
		case errors.Is(err, driver.ErrUnconfirmed) && o.happened(ctx, op, id, seen):
			return nil
		case err != nil:
			return failure(op, err)
		case held:
			return nil
		}
		lost = true
	}
	return changed(op, "it changes faster than this can be decided; try again")
}

// happened looks whether an action was committed whose confirmation was lost.
func (o *Operator) happened(ctx context.Context, op string, ref driver.ID, seen func(v *view) bool) bool {
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	v, err := o.view(look, op, ref)
	return err == nil && seen(v)
}

// action is what becomes of the delivery where event happens to it, with the head of
// its audit row.
func (v *view) action(by By, name string, event lifecycle.EventKind) *acted {
	t := lifecycle.DefaultPolicy.Apply(v.record.State, lifecycle.Event{Kind: event})
	t.Ref = v.record.Intent.Ref
	return &acted{driver.Action{
		Change: &t,
		Audit:  driver.Audited{By: by.Who, Action: name, Ref: v.record.Intent.Ref, Run: v.record.Intent.Run, Reason: by.Why},
	}}
}

// acted is an action under construction.
type acted struct{ driver.Action }

// told is what an audit row says of an intent before or after an action. It has no
// content: the audit outlives erasures.
type told struct {
	Status     string  `json:"status,omitempty"`
	Code       string  `json:"code,omitempty"`
	Uncertain  bool    `json:"uncertain,omitempty"`
	Generation int64   `json:"generation,omitempty"`
	Revision   int64   `json:"revision,omitempty"`
	Finding    Outcome `json:"finding,omitempty"`
	Source     string  `json:"source,omitempty"` // of the finding, where it is a proof
	Successor  string  `json:"successor,omitempty"`
	Key        string  `json:"delivery_key,omitempty"` // of the successor
	Warning    string  `json:"warning,omitempty"`
	Paused     bool    `json:"paused,omitempty"`
	Profile    string  `json:"profile,omitempty"`
	Kind       string  `json:"kind,omitempty"`
	Older      string  `json:"created_before,omitempty"`
	Subjects   int     `json:"subjects,omitempty"`
	Approval   string  `json:"approval,omitempty"`
}

func (t told) text() string {
	b, err := json.Marshal(t)
	if err != nil {
		return "" // texts, numbers and truth values always marshal
	}
	return string(b)
}

// tell completes the audit row: before is what v shows, after what the change makes
// of it, with what else there is to say.
func (a *acted) tell(v *view, also told) *driver.Action {
	s, p := &v.record.State, v.record.Intent.Profile
	before := told{
		Status: s.Status.Public(p), Code: string(s.Code), Uncertain: uncertain(s), Generation: s.Generation, Revision: s.Revision,
	}
	if f := v.current(); f != nil {
		before.Finding = outcomeOf(f.Finding)
	}
	set := &a.Change.Set
	after := also
	after.Status, after.Code, after.Uncertain = set.Status.Public(p), string(set.Code), set.Uncertain
	after.Generation, after.Revision = set.Generation, s.Revision+1
	if after.Finding == "" {
		after.Finding = before.Finding
	}
	a.Audit.Before, a.Audit.After = before.text(), after.text()
	return &a.Action
}

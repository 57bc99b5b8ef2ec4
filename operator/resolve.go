package operator

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Outcome is what a finding says.
type Outcome string

// The outcomes.
const (
	FoundDelivered    Outcome = "delivered"
	FoundNotDelivered Outcome = "not-delivered"
	FoundAbandoned    Outcome = "abandoned" // nobody will find out, or nobody wants it any more
)

var findings = map[Outcome]driver.Finding{
	FoundDelivered: driver.FoundDelivered, FoundNotDelivered: driver.FoundNotDelivered, FoundAbandoned: driver.FoundAbandoned,
}

// Resolution is a finding about an intent. It never changes the status.
type Resolution struct {
	ID         consign.ID
	Ref        consign.Ref
	At         time.Time
	Outcome    Outcome
	Source     string     // "person", "late evidence" or "proof"
	Supersedes consign.ID // the finding that this one corrects; zero: none
	By         string
	Evidence   string // empty once erased
}

func resolution(f *driver.Resolution) Resolution {
	r := Resolution{
		ID: consign.ID(f.ID), Ref: consign.Ref{ID: consign.ID(f.Ref)}, At: f.At, Supersedes: consign.ID(f.Supersedes), By: f.By,
		Evidence: f.Evidence, Outcome: outcomeOf(f.Finding),
		Source: map[driver.Source]string{
			driver.FromPerson: "person", driver.FromEvidence: "late evidence", driver.FromProof: "proof",
		}[f.Source],
	}
	return r
}

func outcomeOf(f driver.Finding) Outcome {
	for o, n := range findings {
		if n == f {
			return o
		}
	}
	return ""
}

// Finding is what a person found out.
type Finding struct {
	Outcome Outcome

	// Evidence is how they know: what the far side says about the delivery key, where
	// it can be looked up. 1 to 4,096 bytes of UTF-8 without control characters other
	// than line ends and tabs. It goes with the intent when that is erased.
	Evidence string

	// Supersedes is the current finding, where there is one that is wrong. Default:
	// there is none.
	Supersedes consign.ID
}

// Resolve records a finding about an intent that is in review, or has a finding. It
// takes the intent out of review and leaves its status as it is; the owner of a
// stranded message is fenced. A wrong finding is corrected by another that supersedes
// it; both stay on record.
//
// Errors: consign.ErrInvalid, consign.ErrNotFound (also once erased), ErrRefused for
// what is not in review, ErrChanged where Supersedes is not the current finding, and
// the database's own.
func (o *Operator) Resolve(ctx context.Context, by By, ref consign.Ref, f Finding) (Resolution, error) {
	const op = "resolve"
	var fs faults
	fs.text("by.who", by.Who, 1, 128, false)
	fs.text("by.why", by.Why, 0, 1024, true) // the evidence says why
	fs.ref(ref)
	fs.text("evidence", f.Evidence, 1, 4096, true)
	if findings[f.Outcome] == 0 {
		fs.add("outcome", `is neither "delivered" nor "not-delivered" nor "abandoned"`)
	}
	if err := fs.err(op); err != nil {
		return Resolution{}, err
	}
	return o.resolve(ctx, op, by, ref, func(v *view) (driver.Resolution, error) {
		if err := v.mayResolve(op); err != nil {
			return driver.Resolution{}, err
		}
		return driver.Resolution{
			Finding: findings[f.Outcome], Source: driver.FromPerson, Supersedes: driver.ID(f.Supersedes), Evidence: f.Evidence,
		}, nil
	})
}

// AcceptEvidence records as a finding what the attempt log says beside the record: that
// it was delivered, since a success was observed late, or since its receiver signed an
// answer; the source is then the proof. A program that trusts such evidence calls it
// for each entry of a review whose Answer is not empty; Who is then the program.
//
// supersedes is the current finding, where there is one that the evidence shows to be
// wrong; the zero ID: there is none.
//
// Errors are those of [Operator.Resolve]; ErrRefused also where nothing in the log
// answers the question.
func (o *Operator) AcceptEvidence(ctx context.Context, by By, ref consign.Ref, supersedes consign.ID) (Resolution, error) {
	const op = "accept evidence"
	var fs faults
	fs.by(by)
	fs.ref(ref)
	if err := fs.err(op); err != nil {
		return Resolution{}, err
	}
	return o.resolve(ctx, op, by, ref, func(v *view) (driver.Resolution, error) {
		if err := v.mayResolve(op); err != nil {
			return driver.Resolution{}, err
		}
		answer := v.answer()
		if answer == nil {
			return driver.Resolution{}, refused(op, "nothing that came late answers whether it was delivered")
		}
		f := driver.Resolution{Finding: driver.FoundDelivered, Source: driver.FromEvidence, Supersedes: driver.ID(supersedes)}
		f.Evidence = fmt.Sprintf("intent %s, generation %d, attempt %d: %s", answer.Ref, answer.Generation, answer.Number, answer.Outcome)
		if answer.HTTPStatus != 0 {
			f.Evidence += ", status " + strconv.Itoa(answer.HTTPStatus)
		}
		if answer.Proof != "" {
			f.Source = driver.FromProof
			f.Evidence += "; the receiver signed " + answer.Proof
		}
		return f, nil
	})
}

// resolve records what find says, deciding anew where somebody was faster.
func (o *Operator) resolve(ctx context.Context, op string, by By, ref consign.Ref, find func(v *view) (driver.Resolution, error)) (Resolution, error) {
	var made driver.Resolution
	err := o.decide(ctx, op, ref, func(v *view) (*driver.Action, error) {
		f, err := find(v)
		if err != nil {
			return nil, err
		}
		current := v.current()
		switch {
		case current == nil && f.Supersedes != (driver.ID{}):
			return nil, changed(op, "there is no finding to supersede")
		case current != nil && current.ID != f.Supersedes:
			return nil, changed(op, fmt.Sprintf("%s has found %q meanwhile; to correct that, supersede finding %s",
				current.By, outcomeOf(current.Finding), current.ID))
		}
		f.ID, f.Ref, f.By = driver.NewID(), driver.ID(ref.ID), by.Who
		made = f
		a := v.action(by, "resolve", lifecycle.EvResolved)
		a.Resolution = &f
		also := told{Finding: outcomeOf(f.Finding)}
		if f.Source == driver.FromProof {
			also.Source = resolution(&f).Source
		}
		return a.tell(v, also), nil
	}, func(v *view) bool {
		for _, f := range v.found {
			if f.ID == made.ID {
				return true
			}
		}
		return false
	})
	if err != nil {
		return Resolution{}, err
	}
	found, err := o.desk.Resolutions(ctx, []driver.ID{driver.ID(ref.ID)})
	for i := range found {
		if err == nil && found[i].ID == made.ID {
			made = found[i]
		}
	}
	return resolution(&made), nil // where it cannot be read again, only its time is missing
}

// mayResolve says why there is nothing to find out.
func (v *view) mayResolve(op string) error {
	s := &v.record.State
	switch {
	case s.Erased:
		return &consign.Error{Op: op, Err: consign.ErrNotFound}
	case s.Stranded(), s.Status == lifecycle.ReconciliationRequired, s.Status == lifecycle.Failed && s.Uncertain:
		return nil
	case s.Status == lifecycle.Failed && v.current() != nil:
		return nil // a proof stood against what the record says for certain
	case s.Status == lifecycle.Succeeded:
		return refused(op, "a success was observed: there is nothing to find out")
	case s.Status.Terminal():
		return refused(op, "it is certain that it was not delivered: there is nothing to find out")
	}
	return refused(op, "it is still open: wait for its end, or cancel it")
}

package memory

import (
	"errors"
	"fmt"
	"slices"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// errCheck is what every violated check wraps.
var errCheck = errors.New("row violates a check of the schema")

// rule is one line of a constraint.
type rule struct {
	name string
	ok   bool
}

func broken(constraint string, rules []rule) error {
	for _, r := range rules {
		if !r.ok {
			return fmt.Errorf("%w: %s: %s", errCheck, constraint, r.name)
		}
	}
	return nil
}

// check mirrors the constraint delivery_state of the SQL schema, line by line.
func (d *delivery) check() error {
	s := &d.state
	owned, leased := s.Owner != (lifecycle.Token{}), !d.leaseUntil.IsZero()
	due, erased := !d.dueAt.IsZero(), !d.erasedAt.IsZero()
	running := s.Status == lifecycle.Leased || s.Status == lifecycle.Delivering
	claimable := s.Status < lifecycle.Delivering || s.Status == lifecycle.Delivering && s.Contract.Retry == lifecycle.Schedule
	return broken("delivery_state", []rule{
		{"known numbers", (s.Profile == 1 || s.Profile == 2) && s.Contract.Retry <= 2 && s.Status <= 6},
		{"counts", s.Generation >= 0 && s.Revision >= 0 && s.Crashes >= 0 && s.Attempts >= 0},
		{"attempts within their maximum", s.Contract.MaxAttempts == 0 || s.Attempts <= s.Contract.MaxAttempts},
		{"work is schedule-owned", s.Profile == lifecycle.Message || s.Contract.Retry == lifecycle.Schedule},
		{"an unclaimed contract is empty", s.Contract.Retry != lifecycle.Unclaimed || s.Contract.Lease == 0 && s.Contract.Timeout == 0},
		{"nobody owns what is pending", !owned || s.Status > lifecycle.Pending},
		{"a lease is an owner's", leased == (running && owned)},
		{"leased has an owner", s.Status != lifecycle.Leased || owned || erased},
		{"due while claimable", due == (!erased && claimable)},
		{"a tombstone is empty", !erased || !owned && d.reviewAt.IsZero() && d.lastError == "" && !d.gated},
		{"in flight is delivering", !s.InFlight || s.Status == lifecycle.Delivering},
		{"only a loop waits", s.Status != lifecycle.Delivering || s.InFlight || s.Contract.Retry == lifecycle.Process || erased},
		{"uncertain is not succeeded or cancelled", !s.Uncertain || s.Status != lifecycle.Succeeded && s.Status != lifecycle.Cancelled},
		{"statuses of the profile", fits(s.Profile, s.Status)},
		{"a code that is stored", s.Code == "" || slices.Contains(lifecycle.Codes, s.Code) && !reported[s.Code]},
	})
}

// reported are the codes that are told and never stored.
var reported = map[lifecycle.Code]bool{lifecycle.Fenced: true, lifecycle.AuthorityMissing: true, lifecycle.EffectCalledTwice: true}

// checkIntent mirrors the constraint intent_shape of the SQL schema.
func checkIntent(i *driver.Intent) error {
	work := i.Profile == lifecycle.Work
	return broken("intent_shape", []rule{
		{"known profile", work || i.Profile == lifecycle.Message},
		{"kind of 1 to 128 bytes", len(i.Kind) >= 1 && len(i.Kind) <= 128},
		{"known link", i.Link <= driver.Reissue},
		{"a link has a predecessor", (i.Link == driver.First) == (i.Predecessor == driver.ID{})},
		{"a redelivery and nothing else has another's key", (i.Link == driver.Redelivery) == (i.Key != i.Ref)},
		{"work payload of at most 4096 bytes", !work || len(i.Payload) <= 4096},
		{"work has a run and a key", !work || i.Run != (driver.ID{}) && len(i.WorkKey) >= 1 && len(i.WorkKey) <= 128},
		{"work has no task", !work || i.Task == "" && i.Address == ""},
		{"a message has no run", work || i.Run == (driver.ID{}) && i.WorkKey == "" && i.Version == "" && i.Operation == "" &&
			i.Actor == "" && i.Tenant == "" && i.SecurityVersion == "" && i.Target == "" && i.TargetVersion == ""},
	})
}

// checkAttempt mirrors the constraint attempt_shape of the SQL schema.
func checkAttempt(a *lifecycle.Attempt) error {
	return broken("attempt_shape", []rule{
		{"known outcome", a.Outcome >= lifecycle.NotSent && a.Outcome <= lifecycle.Crashed},
		{"generation and number from 1", a.Generation > 0 && a.Number > 0},
	})
}

// fits reports whether deliveries of profile p can have status s: work never
// fails, and a message only ever fails.
func fits(p lifecycle.Profile, s lifecycle.Status) bool {
	if p == lifecycle.Work {
		return s != lifecycle.Failed
	}
	return s != lifecycle.Cancelled && s != lifecycle.ReconciliationRequired
}

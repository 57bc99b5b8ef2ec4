package consign

import (
	"context"

	"github.com/consign-go/consign/internal/driver"
)

// ApprovalPolicy says whether an operation runs only once a person has signed it off.
type ApprovalPolicy int

const (
	// NoApproval: none is needed.
	NoApproval ApprovalPolicy = iota
	// AnyConfirmer: a confirmed approval is needed, whoever confirmed it.
	AnyConfirmer
	// OtherConfirmer: a confirmed approval is needed, and who proposed it has not
	// confirmed it.
	OtherConfirmer
)

// The codes of [ErrNotApproved], and of package approval. They are reported with
// errors and never stored with a delivery.
const (
	// CodeApprovalRequired: the operation needs an approval and none was named.
	// Propose the admission, and run it once it is confirmed.
	CodeApprovalRequired Code = "APPROVAL_REQUIRED"
	// CodeApprovalUnknown: there is no such approval, or it is for another
	// operation, actor, tenant, target or input. Which is not told.
	CodeApprovalUnknown Code = "APPROVAL_UNKNOWN"
	// CodeApprovalOpen: nobody has confirmed it yet. Try again when somebody has.
	CodeApprovalOpen Code = "APPROVAL_OPEN"
	// CodeApprovalConfirmed: somebody has confirmed it already, which is final.
	CodeApprovalConfirmed Code = "APPROVAL_CONFIRMED"
	// CodeApprovalDismissed: somebody has dismissed it, which is final.
	CodeApprovalDismissed Code = "APPROVAL_DISMISSED"
	// CodeApprovalExpired: it was not consumed in time, or was erased. Propose it anew.
	CodeApprovalExpired Code = "APPROVAL_EXPIRED"
	// CodeApprovalConsumed: a run has consumed it already. Look for that run's receipt.
	CodeApprovalConsumed Code = "APPROVAL_CONSUMED"
	// CodeApprovalSelfConfirmed: who proposed it may not confirm it as well.
	CodeApprovalSelfConfirmed Code = "APPROVAL_SELF_CONFIRMED"
)

// approvalTexts say the codes in words.
var approvalTexts = map[Code]string{
	CodeApprovalRequired:      "the operation needs an approval and none was named",
	CodeApprovalUnknown:       "there is no such approval for what is to be run",
	CodeApprovalOpen:          "nobody has confirmed the approval yet",
	CodeApprovalConfirmed:     "the approval is confirmed already",
	CodeApprovalDismissed:     "the approval was dismissed",
	CodeApprovalExpired:       "the approval has expired",
	CodeApprovalConsumed:      "the approval was consumed by a run already",
	CodeApprovalSelfConfirmed: "this operation needs a confirmer who is not the proposer",
}

// consume uses the approval up that the admission names, in the transaction of the
// run. Until that ends nobody else can decide about it or consume it; what is
// rolled back gives it back.
func (r *Run) consume(ctx context.Context, dtx driver.Tx) error {
	policy, id := r.admission.Operation.Approval, driver.ID(r.admission.Approval)
	if id == (driver.ID{}) {
		if policy == NoApproval {
			return nil
		}
		return notApproved(CodeApprovalRequired)
	}
	held, found, err := dtx.LockApproval(ctx, id)
	if err != nil {
		return failure("run", err)
	}
	if !found || !fits(&held, &r.row) {
		return notApproved(CodeApprovalUnknown)
	}
	if code := unusable(&held, policy); code != "" {
		return notApproved(code)
	}
	return failure("run", dtx.Consume(ctx, id, r.row.ID))
}

func notApproved(code Code) error { return Refusal(driver.Key{}, "run", code, ErrNotApproved) }

// fits reports whether an approval was proposed for exactly what a run is about to do.
func fits(a *driver.Approval, r *driver.Run) bool {
	return a.Operation == r.Operation && a.Actor == r.Actor && a.Tenant == r.Tenant && a.Target == r.Target &&
		a.InputDigest == r.InputDigest
}

// unusable says why an approval cannot be consumed; empty: it can.
func unusable(a *driver.Approval, policy ApprovalPolicy) Code {
	switch {
	case a.Status == driver.ApprovalConsumed:
		return CodeApprovalConsumed
	case a.Status == driver.ApprovalDismissed:
		return CodeApprovalDismissed
	case a.Expired:
		return CodeApprovalExpired
	case a.Status != driver.ApprovalConfirmed:
		return CodeApprovalOpen
	case policy == OtherConfirmer && a.By == a.Proposer:
		return CodeApprovalSelfConfirmed
	}
	return ""
}

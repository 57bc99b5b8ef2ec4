package consign

import (
	"github.com/consign-go/consign/internal/canon"
	"github.com/consign-go/consign/internal/driver"
)

// Operation is a domain operation that may be admitted. Declare it as a package
// variable, so that those who propose it and those who run it mean the same.
type Operation struct {
	// Name is what grants are given on: 1 to 128 bytes of printable ASCII.
	Name string

	// Approval says whether a person signs each execution off before it may run.
	// Default: NoApproval.
	Approval ApprovalPolicy
}

// Admission is one request to run an operation.
type Admission struct {
	Operation Operation

	// Actor runs it, in Tenant.
	Actor, Tenant Entity

	// Target is what it acts on, and all that its work may name. Default: the
	// operation creates its target and names it with [Run.Created].
	Target Entity

	// Input is what the operation was asked to do: a struct, a map with string
	// keys or a json.RawMessage, at most 16 KiB and 8 levels deep in canonical form.
	// A run stores its digest alone; it is what an approval is bound to. Default:
	// the empty object.
	Input any

	// Approval names the approval that the run consumes; package approval makes
	// them. An operation that needs none consumes the one that is named all the
	// same. Default: none.
	Approval ID

	// Subject is whose data the run and its work hold: what an erasure names. At
	// most 128 bytes of UTF-8 without control characters. Default: nobody's.
	Subject string
}

// inputLimits are those of an admission's input.
var inputLimits = canon.Limits{Bytes: 16 << 10, Depth: maxDepth}

// bind checks an admission without IO. It returns the run's row as far as it is
// known before anything is asked, and the canonical input.
func (a *Admission) bind(fs *faults) (driver.Run, []byte) {
	fs.text("operation.name", a.Operation.Name, 1, 128)
	if p := a.Operation.Approval; p < NoApproval || p > OtherConfirmer {
		fs.add("operation.approval", "is neither NoApproval, AnyConfirmer nor OtherConfirmer")
	}
	fs.entity("actor", a.Actor)
	fs.entity("tenant", a.Tenant)
	if a.Target != (Entity{}) {
		fs.entity("target", a.Target)
	}
	fs.name("subject", a.Subject, 0, 128)
	asked := a.Input
	if asked == nil {
		asked = struct{}{}
	}
	input, err := canon.Object(asked, inputLimits)
	if err != nil {
		fs.addCanon("input", err)
	}
	row := driver.Run{
		Operation: a.Operation.Name, Actor: a.Actor.String(), Tenant: a.Tenant.String(), Target: a.Target.String(),
		Subject: a.Subject,
	}
	if err == nil {
		row.InputDigest = canon.Digest(input)
	}
	return row, input
}

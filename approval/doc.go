// Package approval lets a person sign off what a program, or an AI agent,
// proposes, before it runs.
//
// A proposal is an admission: operation, actor, tenant, target and input. It is
// confirmed or dismissed by a person, once; and a confirmed one is consumed once,
// by the run that commits, together with everything that the run changes. A run of
// anything else than what was proposed does not get it.
//
//	id, err := approvals.ProposeNow(ctx, approval.Proposal{Admission: admission, Proposer: agent})
//	// … a person looks at it (Open, Find) and decides (Confirm, Dismiss) …
//	admission.Approval = id
//	receipt, err := outbox.Run(ctx, admission, triage)
//
// Time is the database's. What was not consumed when its time is over is of no use
// any more; work of a run that consumed it in time has a deadline of its own.
//
// Who may propose, see and decide is the program's to check before it calls: the
// package is told who it is, and holds that and nothing else against the proposal.
package approval

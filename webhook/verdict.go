package webhook

import (
	"cmp"
	"slices"
)

// Verdict is what one POST has proven about its delivery.
type Verdict int

// The five verdicts, with what becomes of the delivery.
const (
	// Unknown: it may have happened. Tried again only where the channel or the kind
	// is idempotent; else a person decides.
	Unknown Verdict = iota
	// NotSent: proof that no complete request can have been seen. Tried again.
	NotSent
	// Refused: a definite no that asks to be tried again.
	Refused
	// Rejected: a definite, final no.
	Rejected
	// Accepted: a known success.
	Accepted
)

// String returns "unknown", "not sent", "refused", "rejected" or "accepted".
func (v Verdict) String() string {
	switch v {
	case NotSent:
		return "not sent"
	case Refused:
		return "refused"
	case Rejected:
		return "rejected"
	case Accepted:
		return "accepted"
	}
	return "unknown"
}

// Rule says what an answer with a status from From to To means. Where the answer
// asks to wait (a Retry-After of whole seconds or a date), Waiting stands in the
// place of Verdict.
type Rule struct {
	From, To int
	Verdict  Verdict
	Waiting  Verdict // with Retry-After
	Note     string  // what else the answer says; "" is nothing
	Override bool    // the endpoint's own: Options.Overrides
}

// Notes of answers, as observations and errors give them.
const (
	// NoteNotFinal: 202 or 207. The receiver took the request and says nothing, or
	// not everything, about what became of it.
	NoteNotFinal = "accepted, and perhaps not yet or not wholly done"
	// NoteGone: 410. The endpoint says that it will not come back.
	NoteGone = "the endpoint is gone"
	// NoteDigest: 422 to our key. The receiver holds the key with another body, so
	// either end breaks its promise.
	NoteDigest = "the receiver may hold this key with another body"
	// NoteInProgress: 409 to our key. The same key is being worked on there.
	NoteInProgress = "the receiver may still be working on this key"
	// NoteBody: the answer's body was cut off, too slow or over its limit. The
	// header section was complete, so the verdict stands.
	NoteBody = "the answer's body was not read to its end"
	// NoteEarly: a success was answered before the body had been sent.
	NoteEarly = "answered before the body was sent"
	// NoteProof: the receiver's proof settled what the status left open.
	NoteProof = "settled by the receiver's proof"
)

// rules is what answers mean, by status; the first rule that fits decides. What no
// rule names is unknown: 1xx that end an exchange, and numbers that no registry
// knows.
//
// A transport failure has no status. It is NotSent where nothing of the request was
// taken by the connection (policy, name, dial, proxy, TLS handshake) and Unknown in
// every other case: time-out, end, reset, cancellation, an answer cut off in its
// header section or over the header limit, anything that is not HTTP/1.
var rules = []Rule{
	{From: 202, To: 202, Verdict: Accepted, Waiting: Accepted, Note: NoteNotFinal},
	{From: 207, To: 207, Verdict: Accepted, Waiting: Accepted, Note: NoteNotFinal},
	{From: 200, To: 299, Verdict: Accepted, Waiting: Accepted},

	// Never followed. 301, 307 and 308 say that the resource is elsewhere; the others
	// normally answer a POST that has been processed.
	{From: 301, To: 301, Verdict: Rejected, Waiting: Rejected},
	{From: 307, To: 308, Verdict: Rejected, Waiting: Rejected},
	{From: 300, To: 399, Verdict: Unknown, Waiting: Unknown},

	// From something on the way, which did not let the request through (RFC 9110
	// section 15.5.8, RFC 6585 section 6).
	{From: 407, To: 407, Verdict: NotSent, Waiting: NotSent},
	{From: 511, To: 511, Verdict: NotSent, Waiting: NotSent},

	{From: 408, To: 408, Verdict: Refused, Waiting: Refused},
	{From: 409, To: 409, Verdict: Unknown, Waiting: Unknown, Note: NoteInProgress},
	{From: 410, To: 410, Verdict: Rejected, Waiting: Rejected, Note: NoteGone},
	{From: 413, To: 413, Verdict: Rejected, Waiting: Refused},
	{From: 421, To: 421, Verdict: Refused, Waiting: Refused},
	{From: 422, To: 422, Verdict: Rejected, Waiting: Rejected, Note: NoteDigest},
	{From: 425, To: 425, Verdict: Refused, Waiting: Refused},
	{From: 429, To: 429, Verdict: Refused, Waiting: Refused},
	{From: 400, To: 499, Verdict: Rejected, Waiting: Rejected},

	{From: 501, To: 501, Verdict: Rejected, Waiting: Rejected},
	{From: 505, To: 505, Verdict: Rejected, Waiting: Rejected},
	{From: 503, To: 503, Verdict: Unknown, Waiting: Refused},
	{From: 500, To: 599, Verdict: Unknown, Waiting: Unknown},
}

// Rules returns what the answers of this endpoint mean, its overrides first; the
// first rule that fits decides, and what none names is unknown. It is part of the
// channel's contract: show it where its outcomes are shown.
func (e *Endpoint) Rules() []Rule {
	return slices.Clone(e.rules)
}

// withOverrides returns the rules with an endpoint's own before them.
func withOverrides(own map[int]Verdict) []Rule {
	var all []Rule
	for status, v := range own {
		r := Rule{From: status, To: status, Verdict: v, Waiting: v, Override: true}
		r.Note = find(rules, status).Note
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b Rule) int { return cmp.Compare(a.From, b.From) })
	return append(all, rules...)
}

// find returns the rule for a status.
func find(all []Rule, status int) Rule {
	for _, r := range all {
		if r.From <= status && status <= r.To {
			return r
		}
	}
	return Rule{From: status, To: status}
}

// verdict is what an answer means, given whether it asks to wait.
func (r Rule) verdict(waiting bool) Verdict {
	if waiting {
		return r.Waiting
	}
	return r.Verdict
}

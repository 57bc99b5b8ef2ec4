package operator

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// live is how long a program counts as live after its last heartbeat, as for the
// engine itself.
const live = time.Minute

// view is everything that decisions about one intent are made of.
type view struct {
	record  driver.Record
	chain   []driver.Chained            // first to last
	records map[driver.ID]driver.Record // of the chain
	log     []driver.Logged             // of the chain
	found   []driver.Resolution         // about the chain, of each intent the oldest first
	serving []driver.Serves
	sent    *driver.Audited // that it was sent again, where its successor is gone
}

// facts are what views of some intents are made of.
type facts struct {
	records map[driver.ID]driver.Record
	chained []driver.Chained
	log     []driver.Logged
	found   []driver.Resolution
	serving []driver.Serves
}

// facts reads what is known about refs. A few calls do for any number. Their records
// are read first: what somebody does meanwhile changes the revision, so that nothing
// can be decided on it with the rest being older.
func (o *Operator) facts(ctx context.Context, refs []driver.ID) (*facts, error) {
	f := &facts{records: map[driver.ID]driver.Record{}}
	if err := f.load(ctx, o.desk, refs); err != nil {
		return nil, err
	}
	var err error
	if f.chained, err = o.desk.Chains(ctx, refs); err != nil {
		return nil, err
	}
	var others []driver.ID
	for _, c := range f.chained {
		if _, known := f.records[c.Ref]; !known {
			others = append(others, c.Ref)
		}
	}
	if err := f.load(ctx, o.desk, others); err != nil {
		return nil, err
	}
	all := slices.AppendSeq(make([]driver.ID, 0, len(f.records)), maps.Keys(f.records))
	if f.log, err = o.desk.Logs(ctx, all); err != nil {
		return nil, err
	}
	if f.found, err = o.desk.Resolutions(ctx, all); err != nil {
		return nil, err
	}
	f.serving, err = o.desk.Serving(ctx, live)
	return f, err
}

func (f *facts) load(ctx context.Context, d driver.Driver, refs []driver.ID) error {
	if len(refs) == 0 {
		return nil
	}
	loaded, err := d.Load(ctx, refs)
	for _, r := range loaded {
		f.records[r.Intent.Ref] = r
	}
	return err
}

// view is what the facts say about one intent; nil: it does not exist.
func (f *facts) view(ref driver.ID) *view {
	r, there := f.records[ref]
	if !there {
		return nil
	}
	v := &view{record: r, records: map[driver.ID]driver.Record{ref: r}, serving: f.serving}
	v.link(ref, f.chained)
	for _, c := range v.chain {
		if r, there := f.records[c.Ref]; there {
			v.records[c.Ref] = r
		}
	}
	for _, l := range f.log {
		if _, mine := v.records[l.Ref]; mine {
			v.log = append(v.log, l)
		}
	}
	for _, found := range f.found {
		if _, mine := v.records[found.Ref]; mine {
			v.found = append(v.found, found)
		}
	}
	return v
}

// views reads what is known about refs, in their order, absent ones left out.
func (o *Operator) views(ctx context.Context, refs []driver.ID) ([]*view, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	f, err := o.facts(ctx, refs)
	if err != nil {
		return nil, err
	}
	var out []*view
	for _, ref := range refs {
		if v := f.view(ref); v != nil {
			out = append(out, v)
		}
	}
	return out, nil
}

// view reads what is known about one intent. One that does not exist is
// consign.ErrNotFound.
func (o *Operator) view(ctx context.Context, op string, ref driver.ID) (*view, error) {
	vs, err := o.views(ctx, []driver.ID{ref})
	if err != nil {
		return nil, failure(op, err)
	}
	if len(vs) == 0 {
		return nil, &consign.Error{Op: op, Err: consign.ErrNotFound}
	}
	return vs[0], nil
}

// link puts the chain of ref in order.
func (v *view) link(ref driver.ID, rows []driver.Chained) {
	members, next := map[driver.ID]driver.Chained{}, map[driver.ID]driver.Chained{}
	for _, c := range rows {
		if c.Asked == ref {
			members[c.Ref] = c
			next[c.Predecessor] = c
		}
	}
	first, there := members[ref]
	if !there {
		return // erased: its place in the chain went with its content
	}
	for {
		before, there := members[first.Predecessor]
		if !there {
			break
		}
		first = before
	}
	for c, more := first, true; more; c, more = next[c.Ref] {
		v.chain = append(v.chain, c)
	}
}

// successor returns the intent that was sent after this one.
func (v *view) successor() (driver.ID, bool) {
	for _, c := range v.chain {
		if c.Predecessor == v.record.Intent.Ref {
			return c.Ref, true
		}
	}
	return driver.ID{}, false
}

// current returns the finding about the intent that no other supersedes; nil: there is
// none.
func (v *view) current() *driver.Resolution { return v.currentOf(v.record.Intent.Ref) }

// currentOf is current for any intent of the chain.
func (v *view) currentOf(ref driver.ID) *driver.Resolution {
	for i := len(v.found) - 1; i >= 0; i-- {
		f := &v.found[i]
		if f.Ref == ref && !slices.ContainsFunc(v.found, func(o driver.Resolution) bool { return o.Supersedes == f.ID }) {
			return f
		}
	}
	return nil
}

// foundAgainst returns a finding that speaks against sending again: that something of
// the chain was delivered, or is not wanted any more. One about the intent itself goes
// first; nil: there is none.
func (v *view) foundAgainst() *driver.Resolution {
	if f := v.current(); f != nil && f.Finding != driver.FoundNotDelivered {
		return f
	}
	for _, c := range v.chain {
		if f := v.currentOf(c.Ref); f != nil && f.Finding != driver.FoundNotDelivered {
			return f
		}
	}
	return nil
}

// settles reports whether a row of the log says that the far side has executed the
// request: a success that came late, or a proof, whatever the answer said beside it.
func settles(l *driver.Logged) bool { return l.Outcome == lifecycle.Accepted || l.Proof != "" }

// accepted returns what settles the question for the chain, or for one delivery key of
// it: the newest proof, or else the newest success that came late.
func (v *view) accepted(key driver.ID) *driver.Logged {
	var best *driver.Logged
	for i := range v.log {
		l := &v.log[i]
		if !settles(l) || key != (driver.ID{}) && v.records[l.Ref].Intent.Key != key {
			continue
		}
		if best == nil || cmp.Or(before(best.Proof != "", l.Proof != ""), l.At.Compare(best.At)) > 0 {
			best = l
		}
	}
	return best
}

// answer returns the row of the log that settles the question about this intent; nil:
// nothing does, or there is no question.
func (v *view) answer() *driver.Logged {
	if s := &v.record.State; s.Erased || !uncertain(s) {
		return nil
	}
	return v.accepted(v.record.Intent.Key)
}

// entry tells all that is known.
func (v *view) entry(whole bool) Entry {
	r, s := &v.record, &v.record.State
	e := Entry{
		Summary: summary(r), LastError: r.LastError, DeliveryKey: consign.ID(r.Intent.Key), Digest: s.Digest,
		MaxAttempts: s.Contract.MaxAttempts, Idempotent: s.Contract.Idempotent, OwnerMayLive: ownerMayLive(s),
	}
	answer := v.answer()
	if answer != nil {
		e.Answer, e.Proven = FoundDelivered, answer.Proof != ""
	}
	e.doubt(v.found)
	e.Means, e.Do = v.advice(e.Stranded, answer)
	e.Evidence = v.evidence(answer)
	for i := range v.found {
		if v.found[i].Ref == r.Intent.Ref {
			e.Resolutions = append(e.Resolutions, resolution(&v.found[i]))
		}
	}
	if f := v.current(); f != nil {
		own := resolution(f)
		e.Current = &own
	}
	for _, c := range v.chain {
		r := v.records[c.Ref]
		if r.Intent.Ref == (driver.ID{}) {
			continue // gone since the chain was read
		}
		l := Link{
			Summary: summary(&r), Predecessor: consign.Ref{ID: consign.ID(c.Predecessor)},
			How: [...]string{driver.First: "first", driver.Redelivery: "redelivery", driver.Reissue: "reissue"}[c.Link],
		}
		if l.doubt(v.found); v.currentOf(c.Ref) != nil {
			l.Found = outcomeOf(v.currentOf(c.Ref).Finding)
		}
		e.Chain = append(e.Chain, l)
	}
	if !s.Erased {
		e.Contract = contractOf(r.Intent.Version, r.Intent.Fingerprint, &s.Contract)
		e.Choices = v.choices()
		if whole {
			e.Content = content(&r.Intent)
		}
	}
	return e
}

// evidence is the log of the chain: what answers, proofs before the rest, then what
// came late, the newest first.
func (v *view) evidence(answer *driver.Logged) []Evidence {
	out := make([]Evidence, 0, len(v.log))
	for i := range v.log {
		l := &v.log[i]
		out = append(out, Evidence{
			Ref: consign.Ref{ID: consign.ID(l.Ref)}, Generation: l.Generation, Number: l.Number, Outcome: l.Outcome.String(), Code: l.Code,
			Error: l.Error, HTTPStatus: l.HTTPStatus, Late: l.Late, Proof: l.Proof, StartedAt: l.StartedAt, At: l.At,
			Answers: answer != nil && settles(l) && v.records[l.Ref].Intent.Key == v.record.Intent.Key,
		})
	}
	slices.SortStableFunc(out, func(a, b Evidence) int {
		return cmp.Or(before(a.Answers, b.Answers), before(a.Answers && a.Proof != "", b.Answers && b.Proof != ""),
			before(a.Late, b.Late), b.At.Compare(a.At))
	})
	return out
}

// before orders what is so before what is not.
func before(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

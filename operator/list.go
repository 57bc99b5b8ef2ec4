package operator

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Filter says which intents are wanted. The zero value wants all.
type Filter struct {
	Status  []consign.Status // as shown to the public. Default: any
	Profile consign.Profile  // Default: both
	Kind    string           // of work, or the channel. Default: any
	Code    consign.Code     // Default: any
	Subject string           // whose data it is. Default: anybody's
	Since   time.Time        // created then or later. Default: any
	Before  time.Time        // created earlier. Default: any
	Limit   int              // 1 to 1,000. Default: 100
	Look    int              // rows to look at: 1,000 to 20,000, in thousands. Default: 20,000
	After   string           // Next of the page before, under the same filter. Default: from the front
}

// Page is a part of a list.
type Page struct {
	Entries []Summary
	Next    string // for the next page; empty: this is the last
}

// How much of the tables one page looks at, at most: a rare code among millions must
// not make a call long.
const (
	lookAt = 1000 // rows at once
	looks  = 20
)

// List returns intents status by status: first what is open, in the order in which it
// is due, then what needs reconciliation, has failed, was cancelled, or succeeded, each
// the newest first. Those of a subject come in no such order.
//
// One call looks at a bounded number of rows: Look, and up to 1,000 more of each status. Where few of them match,
// a page may hold fewer than the limit, or none, and still have a Next. Erased intents
// are not listed, nor are stranded messages that have a finding (Show finds both).
//
// Errors: consign.ErrInvalid, consign.ErrSchema, or the database's own.
func (o *Operator) List(ctx context.Context, f Filter) (Page, error) {
	const op = "list"
	walks, at, limit, err := f.walks(op)
	if err != nil {
		return Page{}, err
	}
	if err := o.ready(ctx, op); err != nil {
		return Page{}, err
	}
	var refs []driver.ID
	for left := f.looks(); left > 0; {
		r := walks[at.Segment]
		r.After, r.Limit = at.place(), lookAt
		found, next, err := o.desk.Walk(ctx, r)
		if err != nil {
			return Page{}, failure(op, err)
		}
		for _, p := range found[:min(len(found), limit-len(refs))] {
			refs = append(refs, p.Ref)
			at = cursorAt(at.Segment, p)
		}
		full := len(refs) == limit
		if next != (driver.Place{}) {
			left-- // what came to its end was short, and there are few of them
		}
		switch {
		case full && (len(found) > 0 && at.Ref != found[len(found)-1].Ref.String()):
		case next != (driver.Place{}):
			at = cursorAt(at.Segment, next)
		case at.Segment+1 == len(walks):
			return o.page(ctx, op, refs, "")
		default:
			at = cursor{Segment: at.Segment + 1, Front: true}
		}
		if full {
			break
		}
	}
	return o.page(ctx, op, refs, at.text())
}

// looks is how often a page may look at rows.
func (f *Filter) looks() int {
	if f.Look == 0 {
		return looks
	}
	return f.Look / lookAt
}

func (o *Operator) page(ctx context.Context, op string, refs []driver.ID, next string) (Page, error) {
	found, err := o.summaries(ctx, refs)
	return Page{Entries: found, Next: next}, failure(op, err)
}

// summaries returns refs as lists show them, in their order, without what is gone.
func (o *Operator) summaries(ctx context.Context, refs []driver.ID) ([]Summary, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	records, err := o.desk.Load(ctx, refs)
	if err != nil {
		return nil, err
	}
	at := make(map[driver.ID]*driver.Record, len(records))
	for i := range records {
		at[records[i].Intent.Ref] = &records[i]
	}
	var out []Summary
	var certain []driver.ID // that a proof may contradict: something was bound that can be signed
	for _, ref := range refs {
		if r := at[ref]; r != nil && !r.State.Erased {
			s := summary(r)
			if out = append(out, s); s.Known == KnownNot && r.State.Digest != (lifecycle.Digest{}) {
				certain = append(certain, ref)
			}
		}
	}
	if len(certain) == 0 {
		return out, nil
	}
	found, err := o.desk.Resolutions(ctx, certain)
	for i := range out {
		out[i].doubt(found)
	}
	return out, err
}

// open are the statuses that are not an end.
var open = []lifecycle.Status{lifecycle.Pending, lifecycle.Leased, lifecycle.Delivering}

// ends are the others, in the order in which they are listed.
var ends = []lifecycle.Status{lifecycle.ReconciliationRequired, lifecycle.Failed, lifecycle.Cancelled, lifecycle.Succeeded}

// walks checks the filter and returns the walks that it takes, one after the other,
// with where to go on.
func (f *Filter) walks(op string) (walks []driver.WalkRequest, at cursor, limit int, err error) {
	var fs faults
	limit = fs.limit(f.Limit, 100, 1000)
	only := fs.profile(f.Profile, false)
	if f.Kind != "" {
		fs.kind(f.Kind, 1)
	}
	fs.text("subject", f.Subject, 0, 128, false)
	if f.Look != 0 && (f.Look < lookAt || f.Look > lookAt*looks) {
		fs.add("look", strconv.Itoa(f.Look)+", limit 1000 to 20000")
	}
	fs.time("since", f.Since)
	fs.time("before", f.Before)
	if f.Code != "" && !slices.Contains(lifecycle.Codes, f.Code) {
		fs.add("code", "is none of the codes")
	}
	for _, s := range f.Status {
		if !slices.Contains(statuses(lifecycle.Work), s) && !slices.Contains(statuses(lifecycle.Message), s) {
			fs.add("status", "is no status")
		}
	}
	for _, p := range []lifecycle.Profile{lifecycle.Work, lifecycle.Message} {
		if only == 0 || only == p {
			walks = append(walks, f.walksOf(p)...)
		}
	}
	at = fs.cursor(f.After, len(walks))
	if len(walks) == 0 { // a status that this profile does not have
		walks = []driver.WalkRequest{{Among: driver.OfSubject}} // nobody's: empty
	}
	return walks, at, limit, fs.err(op)
}

// walksOf are the walks over one profile.
func (f *Filter) walksOf(p lifecycle.Profile) (walks []driver.WalkRequest) {
	wanted := func(s lifecycle.Status) bool {
		return (len(f.Status) == 0 || slices.Contains(f.Status, consign.Status(s.Public(p)))) && !impossible(p, s)
	}
	r := driver.WalkRequest{Profile: p, Kind: f.Kind, Code: f.Code, Subject: f.Subject, From: f.Since, Before: f.Before}
	var among []lifecycle.Status
	for _, s := range lifecycle.Statuses {
		if wanted(s) {
			among = append(among, s)
		}
	}
	if len(among) == 0 {
		return nil
	}
	if f.Subject != "" {
		r.Among, r.Statuses = driver.OfSubject, among
		return []driver.WalkRequest{r}
	}
	r.Statuses = nil
	for _, s := range open {
		if wanted(s) {
			r.Statuses = append(r.Statuses, s)
		}
	}
	if len(r.Statuses) > 0 {
		r.Among = driver.Open
		walks = append(walks, r)
	}
	if p == lifecycle.Message && wanted(lifecycle.Delivering) {
		r.Among = driver.InProcess
		walks = append(walks, r)
	}
	for _, s := range ends {
		if wanted(s) {
			r.Among, r.Statuses = driver.Ended, []lifecycle.Status{s}
			walks = append(walks, r)
		}
	}
	return walks
}

// impossible reports whether no intent of p can have s.
func impossible(p lifecycle.Profile, s lifecycle.Status) bool {
	if p == lifecycle.Message {
		return s == lifecycle.Cancelled || s == lifecycle.ReconciliationRequired
	}
	return s == lifecycle.Failed
}

// statuses are those that intents of p are shown with.
func statuses(p lifecycle.Profile) (out []consign.Status) {
	for _, s := range lifecycle.Statuses {
		if !impossible(p, s) {
			out = append(out, consign.Status(s.Public(p)))
		}
	}
	return out
}

package operator

import (
	"context"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
)

// ReviewFilter says which part of the review list is wanted.
type ReviewFilter struct {
	Limit int    // entries, 1 to 200. Default: 50
	After string // Next of the page before. Default: from the oldest
}

// Review is a page of what waits for a person.
type Review struct {
	Entries []Entry
	Next    string // for the next page; empty: this is the last
}

// Review lists what waits for a person, the longest waiting first: work that needs
// reconciliation, failed messages whose outcome is unknown, and stranded messages once
// their lease is over. What has a current finding or was sent again is no longer in
// it. Entries have no content.
//
// Errors: consign.ErrInvalid, consign.ErrSchema, or the database's own.
func (o *Operator) Review(ctx context.Context, f ReviewFilter) (Review, error) {
	const op = "review"
	var fs faults
	limit, after := fs.limit(f.Limit, 50, 200), fs.cursor(f.After, 1)
	if err := fs.err(op); err != nil {
		return Review{}, err
	}
	if err := o.ready(ctx, op); err != nil {
		return Review{}, err
	}
	places, err := o.desk.Review(ctx, after.place(), limit)
	if err != nil {
		return Review{}, failure(op, err)
	}
	refs := make([]driver.ID, len(places))
	for i, p := range places {
		refs[i] = p.Ref
	}
	vs, err := o.views(ctx, refs)
	if err != nil {
		return Review{}, failure(op, err)
	}
	var page Review
	for _, v := range vs {
		if !v.record.ReviewAt.IsZero() { // decided since the list was read
			page.Entries = append(page.Entries, v.entry(false))
		}
	}
	if len(places) == limit {
		page.Next = cursorAt(0, places[len(places)-1]).text()
	}
	return page, nil
}

// Show tells everything that is known about one intent, with its content. Of an erased
// one only the tombstone is left: ref, status, digest, whether the outcome is unknown,
// and what was observed. An intent that does not exist is consign.ErrNotFound.
func (o *Operator) Show(ctx context.Context, ref consign.Ref) (Entry, error) {
	const op = "show"
	var fs faults
	fs.ref(ref)
	if err := fs.err(op); err != nil {
		return Entry{}, err
	}
	if err := o.ready(ctx, op); err != nil {
		return Entry{}, err
	}
	v, err := o.view(ctx, op, driver.ID(ref.ID))
	if err != nil {
		return Entry{}, err
	}
	if err := o.recall(ctx, v); err != nil {
		return Entry{}, failure(op, err)
	}
	return v.entry(true), nil
}

package reply

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Record is what is stored about one reply.
type Record struct {
	ID      consign.Ref
	Channel string
	To      string
	Task    string // empty: none
	Index   int    // within the task
	Session string // empty: none
	Payload json.RawMessage

	// Status is StatusPending, StatusDelivering, StatusDelivered or StatusFailed.
	Status consign.Status

	// Attempts counts those that were recorded, and the successful one.
	Attempts int

	// LastError is what was said with the newest attempt that did not succeed, at
	// most 1,024 bytes. Empty: nothing.
	LastError string

	// Code says why a failed one failed.
	Code consign.Code

	// Uncertain says that it may have arrived and nobody knows.
	Uncertain bool

	CreatedAt time.Time // by the database's clock, as UpdatedAt
	UpdatedAt time.Time
}

// record returns what a reader sees of a stored message.
func record(r *driver.Record) Record {
	i, s := &r.Intent, &r.State
	return Record{
		ID: consign.Ref{ID: consign.ID(i.Ref)}, Channel: i.Kind, To: i.Address, Task: i.Task, Index: i.Index, Session: i.Subject,
		Payload: i.Payload, Status: consign.Status(s.Status.Public(lifecycle.Message)), Attempts: s.Attempts,
		LastError: r.LastError, Code: s.Code, Uncertain: s.Uncertain, CreatedAt: i.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
}

// visible reports whether r is a message that a reader may see: not erased.
func visible(r *driver.Record) bool {
	return r != nil && !r.State.Erased && r.State.Profile == lifecycle.Message
}

// Find returns the reply under id. found is false, and the error nil, where there is
// none or it was purged.
func (o *Outbox[TX]) Find(ctx context.Context, id consign.Ref) (r Record, found bool, err error) {
	const op = "find"
	if err := o.ready(ctx, op); err != nil {
		return Record{}, false, err
	}
	all, err := o.find(ctx, []consign.Ref{id})
	if err != nil {
		return Record{}, false, failure(op, err)
	}
	r, found = all[id]
	return r, found, nil
}

// find returns what a reader may see of refs.
func (o *Outbox[TX]) find(ctx context.Context, refs []consign.Ref) (map[consign.Ref]Record, error) {
	ids := make([]driver.ID, len(refs))
	for i, ref := range refs {
		ids[i] = driver.ID(ref.ID)
	}
	stored, err := o.bound.Load(ctx, ids)
	if err != nil {
		return nil, err
	}
	out := make(map[consign.Ref]Record, len(stored))
	for i := range stored {
		if r := &stored[i]; visible(r) {
			out[consign.Ref{ID: consign.ID(r.Intent.Ref)}] = record(r)
		}
	}
	return out, nil
}

// How much of the list of pending replies is read at a time: places in their order,
// for which the store looks at every open message, and records with their payloads.
const (
	turnPage   = 10_000
	recordPage = 100
)

// Pending lists the replies that await their first claim, in the order of their task
// and index; those without a task come first. What a program that died had claimed
// is not among them: whether it was sent cannot be known.
//
// It is read in pages while the loop goes on, so the loop may claim what it is given.
// An error is the last thing that it yields. Each page of 10,000 looks at every open
// message of the database once.
//
// Whoever asks for what is pending counts as serving the channels of it, for the
// other programs on this database (see [Outbox.Claim]).
func (o *Outbox[TX]) Pending(ctx context.Context) iter.Seq2[Record, error] {
	const op = "pending"
	return func(yield func(Record, error) bool) {
		if err := o.ready(ctx, op); err != nil {
			yield(Record{}, err)
			return
		}
		var after driver.Turn
		for {
			turns, err := o.bound.(driver.Waitlist).Waiting(ctx, after, turnPage)
			if err != nil {
				yield(Record{}, failure(op, err))
				return
			}
			for left := turns; len(left) > 0; {
				page := left[:min(len(left), recordPage)]
				left = left[len(page):]
				records, err := o.unstarted(ctx, page)
				if err != nil {
					yield(Record{}, failure(op, err))
					return
				}
				for _, r := range records {
					if !yield(r, nil) {
						return
					}
				}
			}
			if len(turns) < turnPage {
				return
			}
			after = turns[len(turns)-1]
		}
	}
}

// unstarted returns those of turns that are still waiting, in their order.
func (o *Outbox[TX]) unstarted(ctx context.Context, turns []driver.Turn) ([]Record, error) {
	refs := make([]driver.ID, len(turns))
	for i, t := range turns {
		refs[i] = t.Ref
	}
	stored, err := o.bound.Load(ctx, refs)
	if err != nil {
		return nil, err
	}
	at := make(map[driver.ID]*driver.Record, len(stored))
	for i := range stored {
		at[stored[i].Intent.Ref] = &stored[i]
	}
	var out []Record
	for _, ref := range refs {
		r := at[ref]
		if visible(r) && r.State.Status == lifecycle.Pending && r.StartedAt.IsZero() {
			o.present.serves(r.Intent.Kind)
			out = append(out, record(r))
		}
	}
	o.present.tell(ctx)
	return out, nil
}

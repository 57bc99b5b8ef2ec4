package consign

import (
	"context"
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/consign-go/consign/internal/canon"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// MaxBatch is how many messages one call may enqueue.
const MaxBatch = 10_000

// Message is an intent whose stored payload is the request itself: a channel
// sends it as it is.
type Message struct {
	// ID names the message, for callers that must be able to repeat the call:
	// the same ID with the same content is the same message, with other content a
	// conflict. Default: a fresh one.
	ID Ref

	// Channel is the name of the way it is sent: 1 to 128 bytes of printable ASCII.
	Channel string

	// To is the recipient as the channel understands it: at most 2,048 bytes of
	// UTF-8 without control characters.
	To string

	// Payload is a JSON object: a struct, a map with string keys, or a
	// json.RawMessage. It is stored in canonical form (RFC 8785), at most as
	// large as the channel allows and 8 levels deep. Values that marshal
	// themselves (times, decimals), NUL, invalid UTF-8, colliding keys and
	// integers beyond ±(2^53−1) are refused.
	Payload any

	// Task puts the message in an order: it is not claimed while a lower Index of
	// the same task may still be started. At most 128 bytes of UTF-8 without
	// control characters. Default: no task, no order.
	Task string

	// Index is the place within the task, from 0.
	Index int

	// Subject is whose data this is (a session, a person): what an erasure names.
	// At most 128 bytes of UTF-8 without control characters. Default: nobody's.
	Subject string

	// NotBefore is the earliest time at which it is sent, by the database's
	// clock. It is not part of the content that is compared. Default: now.
	NotBefore time.Time
}

const maxDepth = 8

// Enqueue writes one message in the caller's transaction: it commits with it or
// not at all. It adds one round trip and contacts nothing but this database. A
// message whose ID exists with identical content is left as it is.
//
// Errors: ErrInvalid with every fault, ErrConflict, ErrClosed, ErrSchema, or the
// database's own. After any of the first three the transaction is as it was.
func (o *Outbox[TX]) Enqueue(ctx context.Context, tx TX, m Message) (Ref, error) {
	refs, err := o.enqueue(ctx, o.bound.Join(tx), []Message{m}, "enqueue", false)
	if err != nil {
		return Ref{}, err
	}
	return refs[0], nil
}

// EnqueueAll writes up to [MaxBatch] messages in the caller's transaction, all of
// them or none, in one round trip where none was given an ID. The refs come back
// in the order of ms. Errors are those of [Outbox.Enqueue].
func (o *Outbox[TX]) EnqueueAll(ctx context.Context, tx TX, ms []Message) ([]Ref, error) {
	return o.enqueue(ctx, o.bound.Join(tx), ms, "enqueue", true)
}

// EnqueueNow writes one message in a transaction of its own. If the database does
// not confirm the commit, the message is looked up; when that does not settle it,
// the error is ErrUnconfirmed and comes with the ref, under which the same call
// can be repeated.
func (o *Outbox[TX]) EnqueueNow(ctx context.Context, m Message) (Ref, error) {
	refs, err := o.enqueueNow(ctx, []Message{m}, false)
	if refs == nil {
		return Ref{}, err
	}
	return refs[0], err
}

// EnqueueAllNow is [Outbox.EnqueueNow] for up to [MaxBatch] messages, all of them
// or none.
func (o *Outbox[TX]) EnqueueAllNow(ctx context.Context, ms []Message) ([]Ref, error) {
	return o.enqueueNow(ctx, ms, true)
}

// enqueueNow returns refs where they may have been committed.
func (o *Outbox[TX]) enqueueNow(ctx context.Context, ms []Message, many bool) ([]Ref, error) {
	const op = "enqueue"
	_, tx, err := o.bound.Begin(ctx)
	if err != nil {
		return nil, failure(op, err)
	}
	refs, err := o.enqueue(ctx, tx, ms, op, many)
	if err != nil {
		tx.Rollback(context.WithoutCancel(ctx))
		return nil, err
	}
	return refs, o.commit(ctx, tx, op, func(ctx context.Context) bool { return o.there(ctx, refs) })
}

func (o *Outbox[TX]) enqueue(ctx context.Context, tx driver.Tx, ms []Message, op string, many bool) ([]Ref, error) {
	var fs faults
	if len(ms) > MaxBatch {
		fs.add("messages", strconv.Itoa(len(ms))+", limit "+strconv.Itoa(MaxBatch))
		return nil, fs.err(op)
	}
	rows := make([]driver.New, 0, len(ms))
	refs := make([]Ref, len(ms))
	trace := o.traced(ctx)
	given := map[Ref]int{}
	for i := range ms {
		field := ""
		if many {
			field = "messages[" + strconv.Itoa(i) + "]."
		}
		row := o.row(&ms[i], &fs, field)
		row.Trace = trace
		if len(fs) > 0 {
			if len(fs) >= 32 {
				break // enough to mend
			}
			continue
		}
		refs[i] = Ref{ID(row.Ref)}
		if row.Given {
			if first, twice := given[refs[i]]; twice {
				if !sameMessage(&rows[first], &row) {
					return nil, &Error{Op: op, Err: ErrConflict}
				}
				continue
			}
			given[refs[i]] = len(rows)
		}
		rows = append(rows, row)
	}
	if err := fs.err(op); err != nil {
		return nil, err
	}
	if err := o.ready(ctx, tx); err != nil {
		return nil, failure(op, err)
	}
	if len(rows) == 0 {
		return refs, nil
	}
	if err := tx.Insert(ctx, rows); err != nil {
		return nil, failure(op, err)
	}
	return refs, nil
}

// row checks one message and makes its row.
func (o *Outbox[TX]) row(m *Message, fs *faults, field string) driver.New {
	limit := defaultPayloadLimit
	var contract lifecycle.Contract
	if c, known := o.channels[m.Channel]; known {
		limit, contract = c.PayloadLimit, c.contract()
	}
	fs.text(field+"channel", m.Channel, 1, 128)
	fs.name(field+"to", m.To, 0, 2048)
	fs.name(field+"task", m.Task, 0, 128)
	fs.name(field+"subject", m.Subject, 0, 128)
	if m.Index < 0 || m.Index > math.MaxInt32 {
		fs.add(field+"index", strconv.Itoa(m.Index)+", limit 0 to "+strconv.Itoa(math.MaxInt32))
	}
	if y := m.NotBefore.Year(); !m.NotBefore.IsZero() && (y < 1970 || y > 9999) {
		fs.add(field+"not_before", "year "+strconv.Itoa(y)+", limit 1970 to 9999")
	}
	payload, err := canon.Object(m.Payload, canon.Limits{Bytes: limit, Depth: maxDepth})
	if err != nil {
		fs.addCanon(field+"payload", err)
	}
	n := driver.New{
		Intent: driver.Intent{
			Ref: driver.ID(m.ID.ID), Profile: lifecycle.Message, Kind: m.Channel, Payload: payload,
			Address: m.To, Task: m.Task, Index: m.Index, Subject: m.Subject,
		},
		Contract: contract, NotBefore: m.NotBefore, Given: !m.ID.IsZero(),
	}
	if len(*fs) == 0 {
		n.Digest = canon.Digest(payload)
	}
	if !n.Given {
		n.Ref = driver.NewID()
	}
	n.Key = n.Ref
	return n
}

// sameMessage reports whether two rows under one ID have the same content.
func sameMessage(a, b *driver.New) bool {
	return a.Kind == b.Kind && a.Address == b.Address && a.Digest == b.Digest &&
		a.Task == b.Task && a.Index == b.Index && a.Subject == b.Subject
}

// commit commits a transaction that this package opened. If the answer is lost,
// it looks whether what was written is seen.
func (o *Outbox[TX]) commit(ctx context.Context, tx driver.Tx, op string, seen func(ctx context.Context) bool) error {
	err := tx.Commit(ctx)
	if errors.Is(err, driver.ErrUnconfirmed) {
		look, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if !seen(look) {
			return &Error{Op: op, Err: unconfirmed{err}}
		}
	}
	if err != nil && !errors.Is(err, driver.ErrUnconfirmed) {
		return failure(op, err)
	}
	if o.auto {
		o.engine.Announce()
	}
	return nil
}

// there reports whether all of refs are seen to be committed.
func (o *Outbox[TX]) there(ctx context.Context, refs []Ref) bool {
	ids := make([]driver.ID, len(refs))
	for i, r := range refs {
		ids[i] = driver.ID(r.ID)
	}
	found, err := o.bound.Load(ctx, ids)
	return err == nil && len(found) == len(ids)
}

// unconfirmed is a commit without an answer.
type unconfirmed struct{ cause error }

func (u unconfirmed) Error() string   { return u.cause.Error() } // which says so
func (u unconfirmed) Unwrap() []error { return []error{ErrUnconfirmed, u.cause} }

package reply

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/consign-go/consign"
)

// Message is a reply to be created. Channel, To and Payload are required.
type Message struct {
	// ID names the reply, for callers that must be able to repeat the call: the
	// same ID with the same content is the same reply, with other content a
	// conflict. Default: a fresh one.
	ID consign.Ref

	// Channel is the name of the way it is sent: 1 to 128 bytes of printable ASCII.
	Channel string

	// To is the recipient as the sender understands it, such as the address of a
	// consumer's own callback: 1 to 2,048 bytes of UTF-8 without control characters.
	To string

	// Task is the turn that the reply belongs to: it is not claimed while a lower
	// Index of the same task may still be sent. At most 128 bytes of UTF-8 without
	// control characters. Default: none, no order.
	Task string

	// Index is the place within the task, from 0.
	Index int

	// Session is whose conversation this is: what [Outbox.PurgeSessions] names. At
	// most 128 bytes of UTF-8 without control characters. Default: nobody's.
	Session string

	// Payload is the body to be sent, a JSON object, as [consign.Message] has it. It
	// is data: nothing in it is ever interpreted.
	Payload any
}

// Create commits one reply in a transaction of its own and returns it as it was
// stored. One whose ID exists with identical content is returned as it is.
//
// Errors: ErrInvalid with every fault, ErrConflict, ErrClosed, ErrSchema,
// ErrUnconfirmed, or the database's own. With ErrUnconfirmed, and where the reply
// was committed but could not be read back, the record returned has its ID, under
// which the call can be repeated.
func (o *Outbox[TX]) Create(ctx context.Context, m Message) (Record, error) {
	records, err := o.create(ctx, []Message{m}, false)
	if len(records) == 0 {
		return Record{}, err
	}
	return records[0], err
}

// CreateAll is [Outbox.Create] for up to [consign.MaxBatch] replies, all of them or
// none, in the order of ms.
func (o *Outbox[TX]) CreateAll(ctx context.Context, ms []Message) ([]Record, error) {
	return o.create(ctx, ms, true)
}

func (o *Outbox[TX]) create(ctx context.Context, ms []Message, many bool) ([]Record, error) {
	const op = "create"
	refs, err := o.messages.EnqueueAllNow(ctx, rows(ms))
	if refs == nil {
		return nil, refused(op, err, ms, many)
	}
	records := make([]Record, len(refs))
	for i, ref := range refs {
		records[i].ID = ref
	}
	if err != nil {
		return records, refused(op, err, ms, many)
	}
	found, err := o.find(ctx, refs)
	if err != nil {
		return records, failure(op, err)
	}
	for i, ref := range refs {
		if r, ok := found[ref]; ok {
			records[i] = r
		}
	}
	return records, nil
}

// CreateIn writes one reply in the caller's transaction: it commits with it or not
// at all. It adds one round trip and contacts nothing but this database.
//
// Errors: ErrInvalid with every fault, ErrConflict, ErrClosed, ErrSchema, or the
// database's own. After any of the first three the transaction is as it was.
func (o *Outbox[TX]) CreateIn(ctx context.Context, tx TX, m Message) (consign.Ref, error) {
	refs, err := o.createIn(ctx, tx, []Message{m}, false)
	if err != nil {
		return consign.Ref{}, err
	}
	return refs[0], nil
}

// CreateAllIn is [Outbox.CreateIn] for up to [consign.MaxBatch] replies, all of them
// or none, in the order of ms.
func (o *Outbox[TX]) CreateAllIn(ctx context.Context, tx TX, ms []Message) ([]consign.Ref, error) {
	return o.createIn(ctx, tx, ms, true)
}

func (o *Outbox[TX]) createIn(ctx context.Context, tx TX, ms []Message, many bool) ([]consign.Ref, error) {
	refs, err := o.messages.EnqueueAll(ctx, tx, rows(ms))
	return refs, refused("create", err, ms, many)
}

// nowhere is what no message may have as its recipient.
const nowhere = "\x00"

// rows are replies as package consign takes them. It lets the recipient be left out;
// a reply that leaves it out is sent on with one that is refused, so that this fault
// is told together with all others.
func rows(ms []Message) []consign.Message {
	out := make([]consign.Message, len(ms))
	for i, m := range ms {
		if m.To == "" {
			m.To = nowhere
		}
		out[i] = consign.Message{
			ID: m.ID, Channel: m.Channel, To: m.To, Payload: m.Payload, Task: m.Task, Index: m.Index, Subject: m.Session,
		}
	}
	return out
}

// refused is what package consign says of rows(ms), in the words of this one.
func refused(op string, err error, ms []Message, many bool) error {
	err = renamed(op, err)
	var e *consign.Error
	if !errors.As(err, &e) {
		return err
	}
	for i := range e.Faults {
		f := &e.Faults[i]
		for n, m := range ms {
			if m.To == "" && f.Field == "messages["+strconv.Itoa(n)+"].to" {
				f.Rule = "0 bytes, limit 1 to 2048"
			}
		}
		if field, ok := strings.CutSuffix(f.Field, ".subject"); ok {
			f.Field = field + ".session"
		}
		if !many {
			f.Field = strings.TrimPrefix(f.Field, "messages[0].")
		}
	}
	return err
}

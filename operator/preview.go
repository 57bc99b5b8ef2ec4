package operator

import (
	"context"
	"strconv"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
)

// maxPreview is how many intents are sent again at once.
const maxPreview = 1000

// Previewed is what sending one intent again would do.
type Previewed struct {
	Ref      consign.Ref
	Revision int64  // at which it was looked at
	Refused  string // why it is not possible; empty: it is
	Warning  string // what to think about first
}

// Preview says for up to 1,000 intents what [ActRedeliver] or [ActReissue] would do,
// and does nothing. What a person has confirmed of it goes to [Operator.Confirm].
// Intents that do not exist are left out.
//
// Errors: consign.ErrInvalid, consign.ErrSchema, or the database's own.
func (o *Operator) Preview(ctx context.Context, act Action, refs []consign.Ref) ([]Previewed, error) {
	const op = "preview"
	var fs faults
	fs.sending(act, len(refs))
	if err := fs.err(op); err != nil {
		return nil, err
	}
	if err := o.ready(ctx, op); err != nil {
		return nil, err
	}
	ids := make([]driver.ID, len(refs))
	for i, ref := range refs {
		ids[i] = driver.ID(ref.ID)
	}
	vs, err := o.views(ctx, ids)
	if err != nil {
		return nil, failure(op, err)
	}
	out := make([]Previewed, 0, len(vs))
	for _, v := range vs {
		if err := o.recall(ctx, v); err != nil {
			return nil, failure(op, err)
		}
		p := Previewed{Ref: consign.Ref{ID: consign.ID(v.record.Intent.Ref)}, Revision: v.record.State.Revision, Warning: v.warning(act)}
		if _, err := v.next(act); err != nil {
			p.Refused = reason(err)
		}
		out = append(out, p)
	}
	return out, nil
}

// Confirmed is what became of one intent of a preview.
type Confirmed struct {
	Previewed
	Sent Sent
	Err  error // ErrChanged where it is not as it was looked at, ErrRefused, or the database's own
}

// Confirm sends again what a person has seen in a preview and confirmed, one after the
// other, each in a transaction of its own. What has changed since is not sent; what was
// refused is refused again. It goes on after an error of one and stops when ctx ends.
func (o *Operator) Confirm(ctx context.Context, by By, act Action, seen []Previewed) ([]Confirmed, error) {
	const op = "confirm"
	var fs faults
	fs.by(by)
	fs.sending(act, len(seen))
	if err := fs.err(op); err != nil {
		return nil, err
	}
	out := make([]Confirmed, 0, len(seen))
	for _, p := range seen {
		if err := ctx.Err(); err != nil {
			return out, failure(op, err)
		}
		sent, err := o.again(ctx, act, by, p.Ref, &p.Revision)
		out = append(out, Confirmed{Previewed: p, Sent: sent, Err: err})
	}
	return out, nil
}

func (fs *faults) sending(act Action, n int) {
	if act != ActRedeliver && act != ActReissue {
		fs.add("action", `is neither "redeliver" nor "reissue"`)
	}
	if n > maxPreview {
		fs.add("refs", strconv.Itoa(n)+", limit "+strconv.Itoa(maxPreview))
	}
}

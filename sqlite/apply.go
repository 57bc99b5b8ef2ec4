package sqlite

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Apply compares and sets all of ts in one transaction.
func (e *engine) Apply(ctx context.Context, ts []lifecycle.Transition) (held []bool, err error) {
	apply := func(oneByOne bool) error {
		return e.write(ctx, "apply", func(ctx context.Context, w *writer) (err error) {
			w.oneByOne = oneByOne
			var rows []int64
			if len(ts) >= fewest && !oneByOne {
				schema, err := w.schemaVersion(ctx)
				if err != nil {
					return err
				}
				rows = e.places.find(schema, ts)
			}
			held, err = w.setAt(ctx, ts, rows, nil)
			return err
		})
	}
	if len(ts) == 0 {
		return nil, ctx.Err()
	}
	if err = apply(false); errors.Is(err, errUneven) {
		err = apply(true)
	}
	if err != nil {
		return nil, err
	}
	e.places.forget(ts)
	return held, nil
}

// errUneven: not every row of a group was as expected. Which ones were is not known,
// so the transaction is undone and each row asked alone. It is rare: somebody was
// fenced.
var errUneven = errors.New("not every row of a group was as expected")

// shape is what transitions have in common that one statement can make. What a start
// binds may differ.
type shape struct {
	fence   lifecycle.Fence
	require lifecycle.Require
	set     lifecycle.Columns
}

// groups returns the places of ts by shape, in the order of their first. Transitions
// that change nothing are in none.
func groups(ts []lifecycle.Transition) [][]int {
	var list [][]int
	at := map[shape]int{}
	last := -1 // most are of the shape of the one before
	for i := range ts {
		if ts[i].Answer != lifecycle.Apply {
			continue
		}
		if last < 0 || !alike(&ts[i], &ts[list[last][0]]) {
			s := shape{ts[i].Fence, ts[i].Require, ts[i].Set}
			s.set.Digest = lifecycle.Digest{}
			n, known := at[s]
			if !known {
				n = len(list)
				at[s] = n
				list = append(list, make([]int, 0, len(ts)-i))
			}
			last = n
		}
		list[last] = append(list[last], i)
	}
	return list
}

// alike reports whether a and b are of one shape.
func alike(a, b *lifecycle.Transition) bool {
	if a.Fence != b.Fence || a.Require != b.Require {
		return false
	}
	x, y := &a.Set, &b.Set
	if x.Digest == y.Digest {
		return *x == *y
	}
	like := *x
	like.Digest = y.Digest
	return like == *y
}

// Rows of one shape go into one statement, in parts of one of two sizes, so that few
// texts are prepared. SQLite takes longer to change a row by VALUES than by a list,
// and plans ever longer VALUES ever more slowly.
const (
	fewest   = 4 // fewer are changed one by one
	small    = 10
	large    = 100
	largeSet = 50 // with VALUES

	stretch  = 64 // rows of the table that one statement goes through
	sparsest = 4  // and changes one in so many of, at least
)

// set carries transitions out and reports which held.
func (w *writer) set(ctx context.Context, ts []lifecycle.Transition) ([]bool, error) {
	return w.setAt(ctx, ts, nil, nil)
}

// setAt is set. program, if not nil, is noted with each; rows, if not nil, says where
// they are, which saves looking their refs up. It must have been read in this
// transaction: a VACUUM may move rows.
func (w *writer) setAt(ctx context.Context, ts []lifecycle.Transition, rows []int64, program *string) ([]bool, error) {
	held := make([]bool, len(ts))
	for _, places := range groups(ts) {
		var err error
		if len(places) < fewest || w.oneByOne {
			err = w.setEach(ctx, ts, places, program, held)
		} else {
			if rows != nil {
				places, err = w.setStretches(ctx, ts, places, rows, program, held)
			}
			if err == nil && len(places) > 0 {
				err = w.setAll(ctx, ts, places, rows, program, held)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	for i := range ts {
		if !held[i] {
			continue
		}
		if err := w.log(ctx, &ts[i]); err != nil {
			return nil, err
		}
		if ts[i].Set.Erased {
			if err := w.forget(ctx, ts[i].Ref); err != nil {
				return nil, err
			}
		}
	}
	return held, nil
}

// setEach changes rows one by one.
func (w *writer) setEach(ctx context.Context, ts []lifecycle.Transition, places []int, program *string, held []bool) error {
	for _, i := range places {
		text, args := changeOf(&ts[i], w.now, program, "?", hash(ts[i].Set.Digest)).one(ts[i].Ref)
		n, err := w.exec(ctx, text, args...)
		if err != nil {
			return err
		}
		held[i] = n == 1
	}
	return nil
}

// setStretches changes those rows of one shape that stand close together, and returns
// the places of the others.
func (w *writer) setStretches(ctx context.Context, ts []lifecycle.Transition, places []int, rows []int64, program *string, held []bool) ([]int, error) {
	slices.SortFunc(places, func(a, b int) int { return cmp.Compare(rows[a], rows[b]) })
	others := places[:0]
	for len(places) > 0 {
		first, n := rows[places[0]], 1
		for n < len(places) && rows[places[n]]-first < stretch {
			n++
		}
		part := places[:n]
		places = places[n:]
		if n < fewest || rows[part[n-1]]-first >= int64(n)*sparsest {
			others = append(others, part...)
			continue
		}
		if err := w.setStretch(ctx, ts, part, rows, program); err != nil {
			return nil, err
		}
		for _, i := range part {
			held[i] = true
		}
	}
	return others, nil
}

// setStretch changes rows of one stretch, all of them or none.
func (w *writer) setStretch(ctx context.Context, ts []lifecycle.Transition, places []int, rows []int64, program *string) error {
	t, first, last := &ts[places[0]], rows[places[0]], rows[places[len(places)-1]]
	var marks uint64
	var digests, refs []byte
	if program == nil { // the places were learned earlier
		refs = make([]byte, (last-first+1)*int64(len(t.Ref)))
	}
	if t.Set.Started {
		digests = make([]byte, (last-first+1)*int64(len(t.Set.Digest)))
	}
	for _, i := range places {
		at := rows[i] - first
		marks |= 1 << at
		if refs != nil {
			copy(refs[at*int64(len(t.Ref)):], ts[i].Ref[:])
		}
		if digests != nil {
			copy(digests[at*int64(len(t.Set.Digest)):], ts[i].Set.Digest[:])
		}
	}
	c := changeOf(t, w.now, program, "nullif(substr(?, (rowid - ?) * 32 + 1, 32), zeroblob(32))", digests, first)
	text, args := c.stretch(first, last, marks, refs)
	n, err := w.exec(ctx, text, args...)
	if err == nil && n != len(places) {
		err = errUneven
	}
	return err
}

// setAll changes rows of one shape together, all of them or none. A claim has just read
// where they are; what was learned earlier is compared with the refs.
func (w *writer) setAll(ctx context.Context, ts []lifecycle.Transition, places []int, rows []int64, program *string, held []bool) error {
	first := &ts[places[0]]
	size, digest, learned := large, "?", rows != nil && program == nil
	if first.Set.Started {
		size, digest = largeSet, boundDigest
	}
	c := changeOf(first, w.now, program, digest)
	var refs []any
	keys := make([]any, 0, 2*size)
	for len(places) > 0 {
		part := places[:min(size, len(places))]
		places = places[len(part):]
		keys, refs = keys[:0], refs[:0]
		for _, i := range part {
			if rows != nil {
				keys = append(keys, rows[i])
			} else {
				keys = append(keys, ts[i].Ref[:])
			}
			if first.Set.Started {
				keys = append(keys, bound(&ts[i]))
			} else if learned {
				refs = append(refs, ts[i].Ref[:])
			}
			held[i] = true
		}
		fill := size
		if len(part) <= small {
			fill = small
		}
		text, args := c.all(keys, refs, fill, rows != nil, first.Set.Started)
		n, err := w.exec(ctx, text, args...)
		if err == nil && n != len(part) {
			err = errUneven
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// logSQL adds to the attempt log. When the attempt started is on the row.
const logSQL = `INSERT INTO {s}attempt (ref, generation, number, late, outcome, http_status, wait_ms, code, error, proof, at, started_at)
SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, CASE WHEN ? THEN (SELECT d.started_at FROM {s}delivery d WHERE d.ref = ?) END
WHERE true ON CONFLICT DO NOTHING`

// log writes the log row that belongs to the change t.
func (w *writer) log(ctx context.Context, t *lifecycle.Transition) error {
	if t.Log == nil {
		return nil
	}
	args := append([]any{t.Ref[:]}, attemptArgs(t.Log)...)
	args = append(args, w.now, flag(t.Fence.Status == lifecycle.Delivering), t.Ref[:])
	_, err := w.exec(ctx, logSQL, args...)
	return err
}

func attemptArgs(a *lifecycle.Attempt) []any {
	status := any(nil)
	if a.HTTPStatus != 0 {
		status = int64(a.HTTPStatus)
	}
	return []any{
		a.Generation, int64(a.Number), flag(a.Late), int64(a.Outcome), status, millis(a.Wait), orNull(string(a.Code)), orNull(a.Error), orNull(a.Proof),
	}
}

// appendSQL keeps late evidence. Of what was erased meanwhile the texts are left out,
// of what was pruned the row.
const appendSQL = `INSERT INTO {s}attempt (ref, generation, number, late, outcome, http_status, wait_ms, code, error, proof, at, started_at)
SELECT d.ref, ?, ?, ?, ?, ?, ?, ?, CASE WHEN d.erased_at IS NULL THEN ? END, CASE WHEN d.erased_at IS NULL THEN ? END, ?, ?
FROM {s}delivery d WHERE d.ref = ? ON CONFLICT DO NOTHING`

// Append keeps late evidence.
func (e *engine) Append(ctx context.Context, rows []driver.Logged) error {
	if len(rows) == 0 {
		return ctx.Err()
	}
	return e.write(ctx, "append", func(ctx context.Context, w *writer) error {
		for i := range rows {
			l := &rows[i]
			args := append(attemptArgs(&l.Attempt), w.now, moment(l.StartedAt), l.Ref[:])
			if _, err := w.exec(ctx, appendSQL, args...); err != nil {
				return err
			}
		}
		return nil
	})
}

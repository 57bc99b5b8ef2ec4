package postgres

import (
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// changes are transitions as the columns of applySQL. A column that stays empty
// is sent as NULL.
type changes struct {
	n                    int
	ref, owner           uuids
	generation, revision numbers
	bits                 numbers

	attempts, crashes, needLease sparse[int64]
	newOwner                     sparse[driver.ID]
	digest                       sparse[[]byte]
	code, text                   sparse[string]
	dueIn, leaseIn, reviewIn     sparse[int64]
	rise                         sparse[int64]
	contract                     contractColumns
	contracts                    bool

	outcome, number, status, wait, logRise, late sparse[int64] // of the log row
	logCode, logText, proof                      sparse[string]
}

func (c *changes) grow(n int) {
	c.n = n
	c.ref, c.owner = make(uuids, n), make(uuids, n)
	c.generation, c.revision, c.bits = make(numbers, n), make(numbers, n), make(numbers, n)
}

func (c *changes) set(i int, t *lifecycle.Transition) {
	s := &t.Set
	c.ref[i], c.owner[i] = t.Ref, driver.ID(t.Fence.Owner)
	c.generation[i], c.revision[i] = t.Fence.Generation, t.Fence.Revision
	bits := flags(t)
	bits |= change(&c.dueIn, i, c.n, s.Due)<<bitDue | change(&c.leaseIn, i, c.n, s.Lease)<<bitLease |
		change(&c.reviewIn, i, c.n, s.Review)<<bitReview
	c.bits[i] = bits
	put(&c.rise, i, c.n, s.Generation-t.Fence.Generation)
	put(&c.attempts, i, c.n, int64(s.Attempts))
	put(&c.crashes, i, c.n, int64(s.Crashes))
	put(&c.needLease, i, c.n, microseconds(t.Require.LeaseLeft))
	if s.Owner != t.Fence.Owner {
		put(&c.newOwner, i, c.n, driver.ID(s.Owner))
	}
	if binds(t) {
		c.digest.at(i, c.n, s.Digest[:])
	}
	put(&c.code, i, c.n, string(s.Code))
	if s.SetError {
		put(&c.text, i, c.n, s.Error)
	}
	if s.SetContract {
		if !c.contracts {
			c.contracts = true
			c.contract.grow(c.n)
		}
		c.contract.set(i, &s.Contract)
	}
	if l := t.Log; l != nil {
		put(&c.outcome, i, c.n, int64(l.Outcome))
		put(&c.number, i, c.n, int64(l.Number))
		put(&c.logCode, i, c.n, string(l.Code))
		put(&c.logText, i, c.n, l.Error)
		put(&c.proof, i, c.n, l.Proof)
		put(&c.status, i, c.n, int64(l.HTTPStatus))
		put(&c.wait, i, c.n, l.Wait.Milliseconds())
		put(&c.logRise, i, c.n, l.Generation-t.Fence.Generation)
		if l.Late {
			c.late.at(i, c.n, 1)
		}
	}
}

// flags are what of t is yes or no, and the status from and to.
func flags(t *lifecycle.Transition) int64 {
	s := &t.Set
	bits := int64(t.Fence.Status)<<bitFrom | int64(s.Status)<<bitTo
	for _, b := range [...]struct {
		on  bool
		bit int64
	}{
		{s.InFlight, bitInFlight}, {s.Uncertain, bitUncertain}, {s.Owner == t.Fence.Owner, bitKeepOwner},
		{t.Require.DeadlineLeft, bitNeedDeadline}, {s.Started, bitStarted}, {s.SetError, bitSetError},
		{s.Erased, bitErased}, {s.SetContract, bitSetContract},
	} {
		if b.on {
			bits |= b.bit
		}
	}
	return bits
}

// binds reports whether t binds a digest. A bound one never changes, and what is
// delivering has one bound: it travels with the start alone.
func binds(t *lifecycle.Transition) bool {
	return t.Set.Digest != (lifecycle.Digest{}) && (t.Set.Started || t.Fence.Status != lifecycle.Delivering)
}

func (c *changes) args() []any {
	args := []any{
		c.ref, c.generation, c.revision, c.owner, c.bits,
		array(numbers(c.attempts), len(c.attempts)), array(numbers(c.crashes), len(c.crashes)),
		array(numbers(c.needLease), len(c.needLease)), array(uuids(c.newOwner), len(c.newOwner)),
		array(blobs(c.digest), len(c.digest)), array(texts(c.code), len(c.code)), array(texts(c.text), len(c.text)),
		array(numbers(c.dueIn), len(c.dueIn)), array(numbers(c.leaseIn), len(c.leaseIn)),
		array(numbers(c.reviewIn), len(c.reviewIn)), array(numbers(c.rise), len(c.rise)),
	}
	n := 0
	if c.contracts {
		n = c.n
	}
	return append(append(args, c.contract.args(n)...),
		array(numbers(c.outcome), len(c.outcome)), array(numbers(c.number), len(c.number)),
		array(texts(c.logCode), len(c.logCode)), array(texts(c.logText), len(c.logText)),
		array(numbers(c.status), len(c.status)), array(numbers(c.wait), len(c.wait)),
		array(numbers(c.logRise), len(c.logRise)), array(numbers(c.late), len(c.late)),
		array(texts(c.proof), len(c.proof)))
}

// sparse is a column that is made only once a row has a value in it.
type sparse[T any] []T

func (s *sparse[T]) at(i, n int, v T) {
	if *s == nil {
		*s = make([]T, n)
	}
	(*s)[i] = v
}

// put sets the value of row i of n, if it is not the zero value.
func put[T comparable](s *sparse[T], i, n int, v T) {
	var zero T
	if v != zero {
		s.at(i, n, v)
	}
}

// change writes down what becomes of a stored time, and returns its kind.
func change(s *sparse[int64], i, n int, c lifecycle.Change) int64 {
	kind := kindOf(c)
	if kind == 2 {
		put(s, i, n, microseconds(time.Duration(c)))
	}
	return kind
}

// kindOf is the two bits that say what becomes of a stored time.
func kindOf(c lifecycle.Change) int64 {
	switch c {
	case lifecycle.Keep:
		return 0
	case lifecycle.Clear:
		return 1
	case lifecycle.AtLeaseEnd:
		return 3
	}
	return 2
}

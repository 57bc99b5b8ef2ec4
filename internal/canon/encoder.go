package canon

import (
	"slices"
	"strconv"
	"sync"
)

// keepCapacity is the largest buffer, in bytes or elements, that goes back to the pool: room for every default limit, and
// one huge value does not stay in memory for ever.
const keepCapacity = 64 << 10

// encoder holds the state of one walk. Its methods append to buf and return whether the walk goes on: false once nothing
// more can be learned (a limit, broken JSON, MaxFaults). After a mere fault the walk goes on, to find the others, and
// what it writes is thrown away.
type encoder struct {
	buf      []byte
	maxBytes int // 0: no limit
	maxDepth int
	depth    int
	pointers int
	tooLarge bool
	faults   []Fault

	names   []string // stack of map keys, one stretch per open map
	members []member // stack of object members, one stretch per open object of raw JSON
	arena   []byte   // stack of unescaped strings of raw JSON
	scratch []byte   // the object being put in order
}

var pool = sync.Pool{New: func() any { return new(encoder) }}

func newEncoder(l Limits) *encoder {
	e := pool.Get().(*encoder)
	e.maxBytes = max(l.Bytes, 0)
	e.maxDepth = MaxDepth
	if l.Depth > 0 && l.Depth < MaxDepth {
		e.maxDepth = l.Depth
	}
	return e
}

// release gives the encoder back without any reference to the caller's data. The stacks are cleared as they are popped,
// so only a walk that ended early has left something in them.
func (e *encoder) release() {
	clear(e.names)
	clear(e.members)
	clear(e.faults)
	*e = encoder{
		buf: kept(e.buf), faults: kept(e.faults), names: kept(e.names),
		members: kept(e.members), arena: kept(e.arena), scratch: kept(e.scratch),
	}
	pool.Put(e)
}

func kept[T any](s []T) []T {
	if cap(s) > keepCapacity {
		return nil
	}
	return s[:0]
}

// result copies the canonical form out of the pooled buffer, or returns what kept it from existing.
func (e *encoder) result() ([]byte, error) {
	if e.room(0); e.tooLarge && len(e.faults) < MaxFaults {
		// The size belongs to the whole form, so its path is the root, however deep the walk was.
		e.faults = append(e.faults, Fault{Rule: ruleBytesLimit(e.maxBytes)})
	}
	if len(e.faults) > 0 {
		return nil, newError(e.faults)
	}
	return slices.Clone(e.buf), nil
}

// fault records a broken rule at the current value. Callers add the path on their way up, with under.
func (e *encoder) fault(rule string) bool {
	e.faults = append(e.faults, Fault{Rule: rule})
	return len(e.faults) < MaxFaults
}

// stop records a broken rule after which nothing more can be learned.
func (e *encoder) stop(rule string) bool {
	e.fault(rule)
	return false
}

// under puts a segment before the paths of the faults from index n on. Building paths backwards, on the error path only,
// costs the good case one comparison per value.
func (e *encoder) under(n int, segment string) {
	for i := n; i < len(e.faults); i++ {
		e.faults[i].Path = join(segment, e.faults[i].Path)
	}
}

func element(i int) string { return "[" + strconv.Itoa(i) + "]" }
func entry(i int) string   { return "{" + strconv.Itoa(i) + "}" }

// enter counts one more level of nesting. Going too deep ends the walk at once: a cycle with two branches would otherwise
// be walked 2^MaxDepth times.
func (e *encoder) enter() bool {
	e.depth++
	return e.depth <= e.maxDepth || e.stop(ruleDepthLimit(e.maxDepth))
}

// room reports whether n more bytes fit, and ends the walk if they do not.
func (e *encoder) room(n int) bool {
	if e.maxBytes == 0 || n <= e.maxBytes-len(e.buf) {
		return true
	}
	e.tooLarge = true
	return false
}

func (e *encoder) null() bool {
	e.buf = append(e.buf, "null"...)
	return true
}

func (e *encoder) boolean(v bool) bool {
	e.buf = strconv.AppendBool(e.buf, v)
	return true
}

// text writes a string. Its canonical form is never shorter than its bytes, so one that cannot fit is not even copied.
func text[T ~string | ~[]byte](e *encoder, s T) bool {
	if !e.room(len(s) + len(`""`)) {
		return false
	}
	var rule string
	if e.buf, rule = appendText(e.buf, s); rule != "" {
		return e.fault(rule)
	}
	return true
}

// inName marks the faults from index n on as faults of a member's name rather than of its value.
func (e *encoder) inName(n int) {
	for i := n; i < len(e.faults); i++ {
		e.faults[i].Rule = "its name: " + e.faults[i].Rule
	}
}

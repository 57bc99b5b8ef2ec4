package driver

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"sync"
	"time"
)

// ID is a UUID (RFC 9562). The zero ID means "none".
type ID [16]byte

// String returns the canonical lower-case form, 36 characters.
func (id ID) String() string {
	var b [36]byte
	hex.Encode(b[0:8], id[0:4])
	hex.Encode(b[9:13], id[4:6])
	hex.Encode(b[14:18], id[6:8])
	hex.Encode(b[19:23], id[8:10])
	hex.Encode(b[24:36], id[10:16])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}

// ErrID is returned by [ParseID].
var ErrID = errors.New("not a UUID of the form xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx")

// ParseID reads the canonical form in either case.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return ID{}, ErrID
	}
	for _, part := range [...]struct{ from, to, at int }{{0, 8, 0}, {9, 13, 4}, {14, 18, 6}, {19, 23, 8}, {24, 36, 10}} {
		if _, err := hex.Decode(id[part.at:], []byte(s[part.from:part.to])); err != nil {
			return ID{}, ErrID
		}
	}
	return id, nil
}

// generator makes UUIDv7 values that rise within a process, so that rows
// inserted together lie together in the primary key.
type generator struct {
	mu   sync.Mutex
	last uint64 // milliseconds << 12 | counter
	pool [512]byte
	left int
}

var ids generator

// NewID returns a fresh UUIDv7 (RFC 9562, section 5.7): 48 bits of milliseconds,
// 12 bits of a counter that keeps one process's IDs in order (section 6.2,
// method 1), 62 random bits. The time in it is a hint for locality; nothing is
// decided by it.
func NewID() ID { return ids.next(time.Now()) }

func (g *generator) next(now time.Time) ID {
	g.mu.Lock()
	defer g.mu.Unlock()
	stamp := uint64(now.UnixMilli()) << 12
	if stamp <= g.last {
		stamp = g.last + 1 // also when the clock stands still or runs back
	}
	g.last = stamp
	if g.left == 0 {
		rand.Read(g.pool[:]) // never fails, by its documentation
		g.left = len(g.pool)
	}
	var id ID
	copy(id[8:], g.pool[len(g.pool)-g.left:][:8])
	g.left -= 8
	binary.BigEndian.PutUint64(id[:8], stamp>>12<<16|stamp&0xfff)
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id
}

// WorkRef returns the ref of the work that a run enqueues under a key: the run's own
// UUIDv7 with 62 bits of a SHA-256 of run and key in place of its random ones. So the
// primary key holds that a work key is unique within its run, and
// the work of one run lies together.
func WorkRef(run ID, key string) ID {
	sum := sha256.Sum256(append(run[:], key...))
	ref := run
	copy(ref[8:], sum[:8])
	ref[8] = ref[8]&0x3f | 0x80
	return ref
}

package driver

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// An ID is a UUIDv7 of RFC 9562: version 7, variant 10, milliseconds in front.
func TestNewIDIsUUIDv7(t *testing.T) {
	before := time.Now().UnixMilli()
	for range 10_000 {
		id := NewID()
		if id[6]>>4 != 7 {
			t.Fatalf("%s: version %d, want 7", id, id[6]>>4)
		}
		if id[8]>>6 != 0b10 {
			t.Fatalf("%s: variant %b, want 10", id, id[8]>>6)
		}
		// The counter may carry into the milliseconds where one holds more than
		// 4096 IDs, so the time may run ahead by as many as were made.
		at := millis(id)
		if at < before || at > time.Now().UnixMilli()+10 {
			t.Fatalf("%s: its time is %d, now is %d", id, at, time.Now().UnixMilli())
		}
		if strings.Contains(id.String(), ".") {
			t.Fatalf("%s has a dot in it", id)
		}
	}
}

func millis(id ID) (ms int64) {
	for _, b := range id[:6] {
		ms = ms<<8 | int64(b)
	}
	return ms
}

// IDs of one process rise, so that rows inserted together lie together and a
// bulk keeps its order: also when the clock stands still, runs back or jumps.
func TestIDsRiseWhateverTheClockDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &generator{}
		now := time.UnixMilli(1_800_000_000_000)
		var last ID
		for _, step := range rapid.SliceOfN(rapid.Int64Range(-5_000, 5_000), 1, 300).Draw(t, "milliseconds") {
			now = now.Add(time.Duration(step) * time.Millisecond)
			id := g.next(now)
			if bytes.Compare(id[:], last[:]) <= 0 {
				t.Fatalf("%s after %s", id, last)
			}
			last = id
		}
	})
}

// A counter that is used up within one millisecond carries into the time and
// leaves version and variant alone.
func TestIDCounterCarries(t *testing.T) {
	g := &generator{}
	now := time.UnixMilli(1_800_000_000_000)
	var last ID
	for i := range 3 * 4096 {
		id := g.next(now)
		if bytes.Compare(id[:], last[:]) <= 0 {
			t.Fatalf("number %d: %s after %s", i, id, last)
		}
		if id[6]>>4 != 7 || id[8]>>6 != 0b10 {
			t.Fatalf("number %d: %s is no UUIDv7", i, id)
		}
		last = id
	}
	if ahead := millis(last) - now.UnixMilli(); ahead != 2 {
		t.Fatalf("after three full counters the time is %d ms ahead, want 2", ahead)
	}
	if id := g.next(now.Add(time.Second)); millis(id) != now.UnixMilli()+1000 {
		t.Fatalf("%s does not follow the clock once it is ahead again", id)
	}
}

// Goroutines never get one ID twice.
func TestNewIDsDiffer(t *testing.T) {
	const each, goroutines = 5_000, 8
	made := make([][]ID, goroutines)
	var done sync.WaitGroup
	for g := range goroutines {
		done.Go(func() {
			for range each {
				made[g] = append(made[g], NewID())
			}
		})
	}
	done.Wait()
	seen := map[ID]bool{}
	for _, ids := range made {
		if !slices.IsSortedFunc(ids, func(a, b ID) int { return bytes.Compare(a[:], b[:]) }) {
			t.Fatal("the IDs of one goroutine do not rise")
		}
		for _, id := range ids {
			if seen[id] {
				t.Fatalf("%s twice", id)
			}
			seen[id] = true
		}
	}
}

// What is printed is read back, in either case; nothing else is read.
func TestParseID(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := ID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		text := id.String()
		b := id[:]
		if want := fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]); text != want {
			t.Fatalf("printed %s, want %s", text, want)
		}
		for _, form := range []string{text, strings.ToUpper(text)} {
			if got, err := ParseID(form); err != nil || got != id {
				t.Fatalf("%s is read as %s, %v", form, got, err)
			}
		}
	})
	const good = "0190f3a1-7c3e-7abc-8def-0123456789ab"
	for _, bad := range []string{
		"", "0", good[:35], good + "0", " " + good[1:], "{" + good[:34] + "}", "urn:uuid:" + good, strings.ReplaceAll(good, "-", ""),
		strings.Replace(good, "a", "g", 1), strings.Replace(good, "-", "_", 1), "0190f3a17-c3e-7abc-8def-0123456789ab",
		good[:8] + "é" + good[10:], good[:35] + "\x00", strings.Repeat("-", 36),
	} {
		if id, err := ParseID(bad); !errors.Is(err, ErrID) || id != (ID{}) {
			t.Errorf("%q is read as %s, %v", bad, id, err)
		}
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("0190f3a1-7c3e-7abc-8def-0123456789ab")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseID(s)
		if err == nil && id.String() != strings.ToLower(s) {
			t.Fatalf("%q is read as %s", s, id)
		}
	})
}

package bench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Profiled is the measure of where the time and the allocations of a drain are.
const Profiled = "profile"

// Profile says where a drain of work spends something, in the draining process.
type Profile struct {
	What string         `json:"what"` // "processor time" or "allocations"
	N    int            `json:"n"`    // intents drained
	Each float64        `json:"each,omitempty"`
	Flat []ProfileShare `json:"flat"`          // at the place itself: by package, or by function
	Cum  []ProfileShare `json:"cum,omitempty"` // at the place and below it
}

// ProfileShare is the share of one place.
type ProfileShare struct {
	Place   string  `json:"place"`
	Percent float64 `json:"percent"`
}

// below are the functions whose time with all that they call is told, and what it
// is spent for. They may contain each other.
var below = map[string]string{
	"runtime.gcBgMarkWorker":                  "garbage collection, in the background",
	"runtime.mallocgc":                        "allocating memory",
	"runtime.newstack":                        "growing the stacks of goroutines",
	"runtime.schedule":                        "choosing goroutines to run",
	"internal/runtime/syscall/linux.Syscall6": "system calls",
	"github.com/consign-go/consign/bench.(*authority).request":            "the handler: authority, decoding, canonical request",
	"github.com/consign-go/consign/internal/dispatch.(*Engine).claim":     "claims",
	"github.com/consign-go/consign/internal/dispatch.(*Engine).decideAll": "starts and settles, with their decisions",
	"github.com/consign-go/consign/internal/lifecycle.Policy.Apply":       "of which the decisions",
}

// profile drains P1's backlog once more, watched.
func (s *Suite) profile(ctx context.Context) (out []Profile, err error) {
	dir, err := os.MkdirTemp("", "consign-bench-profile-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	sub, n := drains(s.Config)[Work], s.Config.N
	err = s.inPool(ctx, func(pool *pgxpool.Pool) error {
		if _, err := s.fill(ctx, pool, Work, sub, n); err != nil {
			return err
		}
		out, err = watched(dir, n, func() error {
			if _, _, err := sub.drain(ctx, pool, n); err != nil {
				return err
			}
			return complete(ctx, pool, sub, n)
		})
		return err
	})
	return out, err
}

// watched profiles fn.
func watched(dir string, n int, fn func() error) ([]Profile, error) {
	name := func(s string) string { return filepath.Join(dir, s) }
	if err := allocations(name("before")); err != nil {
		return nil, err
	}
	f, err := os.Create(name("cpu"))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	heap := readHeap()
	err = fn()
	objects := readHeap().objects - heap.objects
	pprof.StopCPUProfile()
	if err := errors.Join(err, f.Close(), allocations(name("after"))); err != nil {
		return nil, err
	}
	times, err := places(name("cpu"))
	if err != nil {
		return nil, err
	}
	allocs, err := places("-sample_index=alloc_objects", "-base="+name("before"), name("after"))
	if err != nil {
		return nil, err
	}
	return []Profile{
		{What: "processor time", N: n, Flat: byPackage(times), Cum: spentBelow(times)},
		{What: "allocations", N: n, Each: float64(objects) / float64(n), Flat: largest(allocs)},
	}, nil
}

// place is a line of "go tool pprof -top".
type place struct {
	name      string
	flat, cum float64 // percent
}

// places asks the profile for all of its places.
func places(args ...string) ([]place, error) {
	cmd := exec.Command("go", append([]string{"tool", "pprof", "-top", "-nodecount=1000000", "-nodefraction=0"}, args...)...)
	var faults bytes.Buffer
	cmd.Stderr = &faults
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go tool pprof: %w\n%s", err, &faults)
	}
	return parsePlaces(string(out))
}

func parsePlaces(text string) (all []place, err error) {
	_, body, found := strings.Cut(text, "cum%\n")
	if !found {
		return nil, errors.New("go tool pprof: no table in what it prints")
	}
	for line := range strings.Lines(body) {
		f := strings.Fields(strings.ReplaceAll(line, "(inline)", ""))
		if len(f) < 6 {
			continue
		}
		flat, err1 := strconv.ParseFloat(strings.TrimSuffix(f[1], "%"), 64)
		cum, err2 := strconv.ParseFloat(strings.TrimSuffix(f[4], "%"), 64)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("go tool pprof: %w", err)
		}
		all = append(all, place{strings.Join(f[5:], " "), flat, cum})
	}
	return all, nil
}

// packageOf is the package of a function's full name.
func packageOf(name string) string {
	name, _, _ = strings.Cut(name, "[")
	slash := strings.LastIndexByte(name, '/') + 1
	if dot := strings.IndexByte(name[slash:], '.'); dot >= 0 {
		return name[:slash+dot]
	}
	return name
}

const shares = 14 // places in a table

func byPackage(all []place) []ProfileShare {
	sums := map[string]float64{}
	for _, p := range all {
		sums[packageOf(p.name)] += p.flat
	}
	var out []ProfileShare
	for name, percent := range sums {
		out = append(out, ProfileShare{name, percent})
	}
	return sorted(out)
}

func largest(all []place) (out []ProfileShare) {
	for _, p := range all {
		out = append(out, ProfileShare{p.name, p.flat})
	}
	return sorted(out)
}

func spentBelow(all []place) (out []ProfileShare) {
	for _, p := range all {
		if what, ok := below[p.name]; ok {
			out = append(out, ProfileShare{what, p.cum})
		}
	}
	return sorted(out)
}

func sorted(out []ProfileShare) []ProfileShare {
	slices.SortFunc(out, func(a, b ProfileShare) int {
		return cmp.Or(cmp.Compare(b.Percent, a.Percent), cmp.Compare(a.Place, b.Place))
	})
	return out[:min(len(out), shares)]
}

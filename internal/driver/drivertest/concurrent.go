package drivertest

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

func concurrentTests[TX any]() []test[TX] {
	return []test[TX]{
		{"a claim passes over what another one is taking", "two claimers that meet get disjoint rows, and neither waits", claimersMeet[TX]},
		{"many claimers take everything once", "a claim is confirmed to exactly one caller", claimersShare[TX]},
		{"one of many writers wins", "of equal transitions sent at once exactly one holds", writersRace[TX]},
		{"one of many erasers, pruners and owners", "writers of different kinds leave a row that one of them made", mixedRace[TX]},
		{"many enqueue one key", "a work key is taken by exactly one of many transactions", keysRace[TX]},
	}
}

// together runs n calls at once and waits for all of them.
func together(n int, call func(i int)) {
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-begin
			call(i)
		})
	}
	ready.Wait()
	close(begin)
	done.Wait()
}

func claimersMeet[TX any](b *bench[TX]) {
	if b.Hold == nil { // one writer at a time: nobody can be met in the middle
		claimersQueue(b)
		return
	}
	var rows []driver.New
	for range 6 {
		rows = append(rows, b.message("mail"))
	}
	refs := b.insert(rows...)
	slices.SortFunc(refs, compareIDs) // one due time: the order of the index
	release, err := b.Hold(b.ctx, refs[:3])
	b.ok("hold", err)
	got := refsOf(b.claim(request(2, "m:mail"))) // in the middle of the other's claim
	b.ok("release", release())
	for _, ref := range got {
		b.that(slices.Contains(refs[3:], ref), "claimed %v, which another claim is taking", ref)
	}
	b.that(len(got) == 2, "claimed %d, want 2 of the three that are free", len(got))
	b.that(len(b.claim(request(9, "m:mail"))) == 4, "what was passed over is lost")
}

// claimersQueue is claimersMeet for stores in which claims run one after the other.
func claimersQueue[TX any](b *bench[TX]) {
	refs := b.insert(b.message("mail"), b.message("mail"), b.message("mail"), b.message("mail"))
	var got [2][]driver.Claimed
	var faults [2]error
	together(2, func(i int) { got[i], faults[i] = b.Bound.Claim(b.ctx, request(2, "m:mail")) })
	b.ok("claims", errors.Join(faults[:]...))
	all := append(refsOf(got[0]), refsOf(got[1])...)
	slices.SortFunc(all, compareIDs)
	slices.SortFunc(refs, compareIDs)
	b.that(slices.Equal(all, refs), "two claims of two took %v of %v", all, refs)
}

func claimersShare[TX any](b *bench[TX]) {
	const total = 300
	var rows []driver.New
	for i := range total {
		rows = append(rows, b.message(fmt.Sprint("channel ", i%3)))
	}
	b.insert(rows...)
	var mu sync.Mutex
	owners := map[driver.ID]lifecycle.Token{}
	var faults []error
	together(8, func(int) {
		for range total { // more than enough rounds
			mu.Lock()
			left := total - len(owners)
			mu.Unlock()
			if left == 0 {
				return
			}
			r := request(4, "m:channel 0", "m:channel 1", "m:channel 2")
			got, err := b.Bound.Claim(b.ctx, r)
			mu.Lock()
			if err != nil {
				faults = append(faults, err)
			}
			for _, c := range got {
				if _, twice := owners[c.Intent.Ref]; twice || c.State.Generation != 1 || c.State.Owner != r.Owner {
					faults = append(faults, fmt.Errorf("claimed twice: %+v", c.State))
				}
				owners[c.Intent.Ref] = r.Owner
			}
			mu.Unlock()
		}
	})
	b.ok("claims", errors.Join(faults...))
	b.that(len(owners) == total, "%d of %d were claimed", len(owners), total)
	for ref, owner := range owners {
		b.that(b.record(ref).State.Owner == owner, "%s is stored with another owner than was told", ref)
	}
}

func writersRace[TX any](b *bench[TX]) {
	for _, k := range []lifecycle.EventKind{lifecycle.EvStart, lifecycle.EvReleased} {
		ref := b.add(b.message("mail"))
		b.take(ref)
		t := b.decide(ref, is(k))
		held, faults := make([]bool, 8), make([]error, 8)
		together(8, func(i int) {
			got, err := b.Bound.Apply(b.ctx, []lifecycle.Transition{t})
			held[i], faults[i] = err == nil && got[0], err
		})
		b.ok("apply", errors.Join(faults...))
		won := 0
		for _, h := range held {
			if h {
				won++
			}
		}
		b.that(won == 1, "%s: %d of 8 held, want 1", k, won)
		b.that(b.record(ref).State.Revision == t.Fence.Revision+1, "%s: changed more than once", k)
	}
}

func mixedRace[TX any](b *bench[TX]) {
	const rows = 20
	var refs []driver.ID
	var settles []lifecycle.Transition
	for range rows {
		ref := b.inFlight(b.message("mail", about("customer:1")))
		refs = append(refs, ref)
		settles = append(settles, b.decide(ref, is(lifecycle.EvSucceeded)))
	}
	erased, pruned := 0, 0
	held := make([]bool, rows)
	var faults [4]error
	before := b.clock().Add(lease)
	together(4, func(i int) {
		switch i {
		case 0:
			erased, faults[i] = b.Bound.Erase(b.ctx, []string{"customer:1"})
		case 1:
			for n := range settles {
				got, err := b.Bound.Apply(b.ctx, settles[n:n+1])
				held[n] = err == nil && got[0]
				faults[i] = errors.Join(faults[i], err)
			}
		case 2:
			for range 10 {
				n, err := b.Bound.Prune(b.ctx, lifecycle.Message, before, 3)
				pruned += n
				faults[i] = errors.Join(faults[i], err)
			}
		case 3:
			_, faults[i] = b.Bound.Claim(b.ctx, request(9, "m:mail"))
		}
	})
	b.ok("calls", errors.Join(faults[:]...))
	b.that(erased+pruned+b.count("intent") == rows, "erased %d, pruned %d, %d left of %d", erased, pruned, b.count("intent"), rows)
	for i, ref := range refs {
		records, err := b.Bound.Load(b.ctx, []driver.ID{ref})
		b.ok("load", err)
		if len(records) == 0 {
			b.that(held[i], "row %d was pruned, and its settle did not hold", i)
			continue
		}
		s := records[0].State
		b.that((s.Status == lifecycle.Succeeded) == held[i], "row %d: held is %v, state is %+v", i, held[i], s)
	}
}

func keysRace[TX any](b *bench[TX]) {
	run := driver.NewID()
	rows, faults := make([]driver.New, 6), make([]error, 6)
	for i := range rows {
		rows[i] = b.work("triaged", inRun(run, "notice"))
	}
	together(len(rows), func(i int) { faults[i] = b.tryInsert(rows[i]) })
	won := 0
	for _, err := range faults {
		if err == nil {
			won++
			continue
		}
		b.that(errors.Is(err, driver.ErrTaken), "a taken key gives %v", err)
	}
	b.that(won == 1 && b.count("intent") == 1, "%d transactions took the key", won)
}

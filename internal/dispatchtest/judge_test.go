//go:build unix

package dispatchtest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

func sum(text string) string {
	b := sha256.Sum256([]byte(text))
	return hex.EncodeToString(b[:])
}

// judge says what is wrong with one intent's history. The rules are those that
// the package documentation of consign promises, written down again.
func (f *finding) judge() (faults []string) {
	must := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Sprintf(format, args...))
		}
	}
	if f.rows != 2 || f.wanted == "" {
		must(false, "%d rows of an intent that was enqueued: %v", f.rows, f.wanted != "")
		return faults
	}
	f.content(must)
	f.changes(must)
	f.end(must)
	f.sent(must)
	f.evidence(must)
	return faults
}

type verdict = func(ok bool, format string, args ...any)

// content: payload and digest never change, and all requests are the same.
func (f *finding) content(must verdict) {
	must(sum(f.payload) == f.wanted, "the payload is not the one that was enqueued")
	for _, a := range f.came {
		must(!a.whole || a.digest == f.now.digest, "a request with digest %.8s, %.8s is bound", a.digest, f.now.digest)
		must(!a.whole || a.claimed == a.digest, "a request with digest %.8s said that it is %.8s", a.digest, a.claimed)
	}
}

// changes: what no single change may do.
func (f *finding) changes(must verdict) {
	last := state{}
	owners := map[int64]string{}
	for _, s := range f.steps {
		must(s.was == last, "a change from %+v, but the change before led to %+v", s.was, last)
		last = s.is
		must(s.is.revision == s.was.revision+1, "revision %d after %d", s.is.revision, s.was.revision)
		must(s.is.generation == s.was.generation || s.is.generation == s.was.generation+1, "generation %d after %d", s.is.generation, s.was.generation)
		if s.is.owner != "" {
			first, known := owners[s.is.generation]
			must(!known || first == s.is.owner, "two owners of generation %d", s.is.generation)
			owners[s.is.generation] = s.is.owner
		}
		must(s.was.status < isSucceeded || s.was.status == s.is.status, "left the terminal status %d for %d", s.was.status, s.is.status)
		must(s.was.digest == "" || s.was.digest == s.is.digest, "its digest changed")
		must(!s.was.uncertain || s.is.uncertain || s.is.status == isSucceeded, "lost its uncertain mark without a success")
		must(s.is.status != isCancelled || !s.is.uncertain, "cancelled although uncertain")
		must(f.most == 0 || s.is.attempts <= f.most, "%d attempts of %d", s.is.attempts, f.most)
		must(s.is.crashes <= crashBudget, "%d crashes in a row", s.is.crashes)
		taken := s.is.status == isLeased && s.is.generation > s.was.generation && s.was.owner != ""
		must(!taken || s.was.leaseAt <= s.at, "taken %d µs before the lease was over", s.was.leaseAt-s.at)
		must(f.retry != byProcess || s.was.status != isDelivering || s.is.status >= isDelivering, "process-owned, and moved back to status %d", s.is.status)
		must(f.retry != byProcess || s.was.status != isDelivering || s.is.generation == s.was.generation, "process-owned, and taken over after its start")
	}
	must(last == f.now, "the row is %+v, but the last change led to %+v", f.now, last)
}

// end: every intent comes to an end, or is a stranded message.
func (f *finding) end(must verdict) {
	must(f.now.status >= isSucceeded || f.stranded(), "is still open: %+v", f.now)
}

func (f *finding) stranded() bool {
	return f.now.status == isDelivering && f.retry == byProcess && f.now.leaseAt <= f.clock
}

// starts are the durable starts, and ends the outcomes that their owners wrote
// down and that left no doubt.
func (f *finding) starts() (starts, ends []step) {
	for _, s := range f.steps {
		if !s.was.inFlight && s.is.inFlight {
			starts = append(starts, s)
		}
		if s.was.inFlight && !s.is.inFlight && s.is.generation == s.was.generation && (s.was.uncertain || !s.is.uncertain) && s.is.code != "OUTCOME_UNKNOWN" {
			ends = append(ends, s)
		}
	}
	return starts, ends
}

// sent: what the far side may have seen.
func (f *finding) sent(must verdict) {
	starts, ends := f.starts()
	must(len(f.came) <= len(starts), "%d requests came of %d starts", len(f.came), len(starts))
	acted := 0
	for i, a := range f.came {
		if a.acted {
			acted++
		}
		n := 0
		for _, s := range starts {
			if s.is.generation == a.generation && s.at <= a.at.UnixMicro()+clockStep {
				n++
			}
		}
		must(n > 0, "a request under generation %d came without a start before it", a.generation)
		if i == 0 {
			continue
		}
		before := f.came[i-1]
		must(a.generation >= before.generation, "generation %d came after %d", a.generation, before.generation)
		must(a.generation > before.generation || a.worker == before.worker, "two processes sent under generation %d", a.generation)
		must(f.retry != byProcess || a.worker == before.worker, "process-owned, and sent by %s and %s", before.worker, a.worker)
		must(f.idempotent || len(ends) >= i, "not idempotent, and sent again although only %d of %d outcomes were known", len(ends), i)
	}
	must(f.idempotent || acted <= 1, "not idempotent, and the far side acted %d times", acted)
	must(f.now.status != isSucceeded || acted > 0, "succeeded, and the far side has never acted")
	must(f.now.status != isCancelled || acted == 0, "cancelled, and the far side has acted")
	known := f.now.status == isSucceeded || f.now.uncertain || f.now.inFlight
	must(acted == 0 || known, "the far side has acted, and it is called certain that it has not: %+v", f.now)
}

// clockStep is how coarse the coarser database's clock is, in microseconds.
const clockStep = 2000

// evidence: every attempt is in the log at most once, and what was late is kept
// beside a row that somebody else has gone on with.
func (f *finding) evidence(must verdict) {
	seen := map[logged]int{}
	for _, l := range f.log {
		seen[logged{generation: l.generation, number: l.number, late: l.late}]++
		must(l.generation <= f.now.generation, "evidence of generation %d, which never was", l.generation)
	}
	for l, n := range seen {
		must(n == 1, "%d rows of attempt %d of generation %d, late %v", n, l.number, l.generation, l.late)
	}
}

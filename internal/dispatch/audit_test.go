package dispatch

import (
	"bytes"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/driver/memory"
)

// This file judges what an engine has done. It looks at raw rows and at the far
// side's own log, and shares no rule with the code that made them: numbers and
// conditions are written out again.

// Statuses and retry owners as they are stored.
const (
	isPending, isLeased, isDelivering, isSucceeded = 0, 1, 2, 3
	isCancelled, isReconciliation                  = 5, 6
	byProcess, bySchedule                          = 1, 2
)

type row = map[string]any

// watcher looks at the delivery table after every write and notes what no write
// may do.
type watcher struct {
	store *memory.Store

	mu     sync.Mutex
	last   map[driver.ID]row
	owners map[string]any // by ref and generation
	faults []string
}

func newWatcher(s *memory.Store) *watcher {
	w := &watcher{store: s, last: map[driver.ID]row{}, owners: map[string]any{}}
	w.look()
	return w
}

func deliveries(s *memory.Store) map[driver.ID]row {
	rows, err := s.Rows("delivery")
	if err != nil {
		panic(err)
	}
	out := make(map[driver.ID]row, len(rows))
	for _, r := range rows {
		out[r["ref"].(driver.ID)] = r
	}
	return out
}

// during runs one write while nobody else writes, and compares what was before
// with what is after. fenced are refs that the write must not have touched.
func (w *watcher) during(write func() (fenced []driver.ID)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.compare(deliveries(w.store), nil)
	fenced := write()
	w.compare(deliveries(w.store), fenced)
}

func (w *watcher) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.compare(deliveries(w.store), nil)
}

func (w *watcher) fault(ref driver.ID, format string, args ...any) {
	w.faults = append(w.faults, ref.String()[30:]+": "+fmt.Sprintf(format, args...))
}

func (w *watcher) compare(now map[driver.ID]row, fenced []driver.ID) {
	for _, ref := range fenced {
		if !reflect.DeepEqual(w.last[ref], now[ref]) {
			w.fault(ref, "a fenced write changed %v to %v", w.last[ref], now[ref])
		}
	}
	for ref, was := range w.last {
		is, there := now[ref]
		if !there {
			w.fault(ref, "vanished")
			continue
		}
		w.step(ref, was, is)
	}
	w.last = now
}

// step judges one row's change.
func (w *watcher) step(ref driver.ID, was, is row) {
	num := func(r row, c string) int64 { return reflect.ValueOf(r[c]).Int() }
	if num(is, "generation") < num(was, "generation") || num(is, "revision") < num(was, "revision") {
		w.fault(ref, "generation or revision fell")
	}
	if !reflect.DeepEqual(was, is) && num(is, "revision") == num(was, "revision") {
		w.fault(ref, "changed without a revision")
	}
	if was["status"].(int) >= isSucceeded && was["status"] != is["status"] {
		w.fault(ref, "left the terminal status %v for %v", was["status"], is["status"])
	}
	if was["uncertain"].(bool) && !is["uncertain"].(bool) && is["status"].(int) != isSucceeded {
		w.fault(ref, "lost its uncertain mark without a success")
	}
	if d, _ := was["digest"].([]byte); d != nil && !bytes.Equal(d, is["digest"].([]byte)) {
		w.fault(ref, "changed its digest")
	}
	if started, ok := is["started_at"].(time.Time); ok && started != was["started_at"] {
		if deadline, ok := is["deadline"].(time.Time); ok && !started.Before(deadline) {
			w.fault(ref, "started %s after its deadline", started.Sub(deadline))
		}
		if was["erased_at"] != nil || was["status"].(int) != isLeased && was["status"].(int) != isDelivering {
			w.fault(ref, "started out of status %v, erased at %v", was["status"], was["erased_at"])
		}
	}
	if is["owner"] != nil {
		claim := fmt.Sprint(ref, is["generation"])
		if first, ok := w.owners[claim]; ok && first != is["owner"] {
			w.fault(ref, "two owners in generation %v", is["generation"])
		}
		w.owners[claim] = is["owner"]
	}
}

// audit judges the end of a history: every intent that was enqueued, its row, its
// attempt log and what the far side saw of it.
func audit(s *memory.Store, refs []driver.ID, log []arrival) (faults []string) {
	rows, now := deliveries(s), time.Now()
	attempts, err := s.Rows("attempt")
	if err != nil {
		return []string{err.Error()}
	}
	byRef := map[driver.ID][]row{}
	for _, a := range attempts {
		byRef[a["ref"].(driver.ID)] = append(byRef[a["ref"].(driver.ID)], a)
	}
	byKey := map[driver.ID][]arrival{}
	for _, a := range log {
		byKey[a.key] = append(byKey[a.key], a)
	}
	for _, ref := range refs {
		j := judgement{row: rows[ref], log: byRef[ref], came: byKey[ref], now: now}
		j.ended()
		j.sent()
		j.recorded()
		for _, f := range j.faults {
			faults = append(faults, ref.String()[30:]+": "+f)
		}
	}
	return faults
}

// judgement is about one intent.
type judgement struct {
	row    row
	log    []row
	came   []arrival
	now    time.Time
	faults []string
}

func (j *judgement) must(ok bool, format string, args ...any) {
	if !ok {
		j.faults = append(j.faults, fmt.Sprintf(format, args...))
	}
}

func (j *judgement) erased() bool { return j.row["erased_at"] != nil }

// definite reports whether the log says for certain that an attempt did nothing.
func (j *judgement) definite(a arrival) bool {
	for _, l := range j.log {
		if l["generation"] == a.generation && l["number"] == a.number && !l["late"].(bool) {
			return l["outcome"].(int) <= 3
		}
	}
	return false
}

// ended: every intent comes to an end, or is a stranded message.
func (j *judgement) ended() {
	if j.row == nil {
		j.must(false, "vanished")
		return
	}
	status := j.row["status"].(int)
	lease, leased := j.row["lease_until"].(time.Time)
	stranded := status == isDelivering && j.row["retry"] == byProcess && leased && !lease.After(j.now)
	resolved := status == isDelivering && j.row["retry"] == byProcess && !leased
	j.must(status >= isSucceeded || stranded || resolved || j.erased(), "is open: status %d", status)
	if most, ok := j.row["max_attempts"].(int); ok {
		j.must(j.row["attempts"].(int) <= most, "%v attempts of %d", j.row["attempts"], most)
	}
	j.must(j.row["crashes"].(int) <= 5, "%v crashes", j.row["crashes"])
}

// sent: what the far side may have seen of it.
func (j *judgement) sent() {
	if j.row == nil {
		return
	}
	idempotent, retry := j.row["idempotent"].(bool), j.row["retry"]
	for i, a := range j.came {
		d, _ := j.row["digest"].([]byte)
		j.must(bytes.Equal(a.digest[:], d), "came with another digest than is bound")
		if i == 0 {
			continue
		}
		before := j.came[i-1]
		j.must(idempotent || before.known, "not idempotent, and sent again after an unknown outcome")
		j.must(idempotent || j.definite(before), "not idempotent, and sent again after what is not written down as definite")
		told := before.done && before.known // to an owner that may have died before it could write it down
		j.must(!told || idempotent && a.owner != before.owner, "sent again after a success that was told")
		j.must(a.generation >= before.generation, "generation %d after %d", a.generation, before.generation)
		j.must(a.generation != before.generation || a.owner == before.owner, "two owners sent under generation %d", a.generation)
		j.must(retry != byProcess || a.owner == before.owner, "process-owned, and sent by two")
	}
}

// recorded: what is written of it is what the far side saw.
func (j *judgement) recorded() {
	if j.row == nil {
		return
	}
	status, uncertain := j.row["status"].(int), j.row["uncertain"].(bool)
	var acted, told bool
	for _, a := range j.came {
		acted = acted || a.done
		told = told || a.done && a.known
	}
	j.must(status != isSucceeded || told, "succeeded, and no success was observed")
	j.must(status != isCancelled || !uncertain && !acted, "cancelled, and perhaps sent")
	stranded := status == isDelivering
	known := status == isSucceeded || uncertain || stranded && j.row["in_flight"].(bool)
	j.must(!acted || known, "the far side has acted, and it is called certain: status %d", status)
	seen := map[string]bool{}
	for _, l := range j.log {
		key := fmt.Sprint(l["generation"], l["number"], l["late"])
		j.must(!seen[key], "two log rows of attempt %s", key)
		seen[key] = true
	}
	for _, a := range j.came {
		if a.told != 0 && !a.done && !stranded && !j.erased() {
			logged := seen[fmt.Sprint(a.generation, a.number, false)] || seen[fmt.Sprint(a.generation, a.number, true)]
			j.must(logged, "attempt %d of generation %d is not in the log", a.number, a.generation)
		}
	}
}

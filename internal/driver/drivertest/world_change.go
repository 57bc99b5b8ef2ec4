package drivertest

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// shapes are the contracts of a history. The last one is none.
var shapes = []lifecycle.Contract{
	{Retry: lifecycle.Schedule, Idempotent: true, MaxAttempts: 3, Lease: unit, Timeout: 300 * time.Second, MaxAge: 8 * unit},
	{Retry: lifecycle.Schedule, MaxAttempts: 2, Lease: 2 * unit, Timeout: 300 * time.Second, MaxAge: 6 * unit},
	{Retry: lifecycle.Process, MaxAttempts: 3, Lease: 2 * unit, Timeout: 300 * time.Second, MaxAge: 6 * unit},
	{Retry: lifecycle.Process, Idempotent: true, MaxAttempts: 2, Lease: unit, Timeout: 300 * time.Second},
	{Retry: lifecycle.Schedule, Idempotent: true, MaxAttempts: 1, Lease: unit, Timeout: 300 * time.Second},
	{Retry: lifecycle.Schedule, Idempotent: true, MaxAttempts: 5, Lease: unit, Timeout: 300 * time.Second},
	{},
}

// row draws a new intent.
func (w *world) row() driver.New {
	n := driver.New{Contract: pick(w, shapes, "contract"), Given: true}
	n.Ref = w.id()
	n.Key = n.Ref
	n.Payload = fmt.Appendf(nil, `{"n":%d}`, w.made)
	n.Digest = sha256.Sum256(n.Payload)
	n.Subject = pick(w, []string{"", "s1", "s2"}, "subject")
	if w.oneIn(4, "work") {
		n.Profile, n.Kind, n.Given = lifecycle.Work, "triaged", false
		if n.Contract.Retry != lifecycle.Schedule {
			n.Contract = shapes[w.upTo(2, "contract of work")]
		}
		n.Version = pick(w, []string{"1", "2"}, "version")
		n.Fingerprint = sha256.Sum256([]byte(n.Version))
		inRun(w.id(), "notice")(&n)
		n.Operation, n.Actor, n.Tenant, n.SecurityVersion = "triage", "staff:7", "tenant:1", "v3"
		n.Target, n.TargetVersion = "ticket:9", "4"
	} else {
		n.Profile, n.Kind, n.Address = lifecycle.Message, pick(w, []string{"mail", "sms"}, "channel"), "desk@example.org"
		n.Task, n.Index = pick(w, []string{"", "", "", "a", "b"}, "task"), w.upTo(4, "index")
	}
	return n
}

// insert inserts some rows in one transaction. One of them may be a repeat, a
// conflict, a taken key or a successor.
func (w *world) insert() {
	rows := make([]driver.New, 1+w.upTo(6, "rows"))
	for i := range rows {
		rows[i] = w.row()
	}
	what := "insert"
	if len(w.rows) > 0 {
		old, last := pick(w, w.rows, "earlier"), &rows[len(rows)-1]
		switch w.upTo(12, "last row") {
		case 3:
			if old.Given {
				what, *last = "repeat", old
			}
		case 4:
			if old.Given {
				what, *last = "conflict", old
				last.Address = "other@example.org"
			}
		case 5, 8:
			if old.Run != (driver.ID{}) && old.Predecessor == (driver.ID{}) {
				*last = old
			}
		case 6:
			last.Given, last.Predecessor, last.Link = false, old.Ref, driver.Reissue
		case 7:
			last.Given, last.Predecessor, last.Link, last.Key = false, old.Ref, driver.Redelivery, old.Key
			last.Bound, last.Uncertain = old.Digest, true
		}
	}
	delay := time.Duration(0)
	if w.oneIn(4, "delay") {
		delay = w.units(3, "not before")
	}
	commit := !w.oneIn(6, "roll back")
	answer := w.both("insert", func(s *side) string {
		if delay > 0 {
			now, err := s.Now(w.ctx)
			if err != nil {
				return fault(err)
			}
			rows[0].NotBefore = now.Add(delay).Truncate(time.Millisecond)
		}
		return fault(s.within(w.ctx, commit, func(tx driver.Tx) error { return tx.Insert(w.ctx, rows) }))
	})
	rows[0].NotBefore = time.Time{}
	switch {
	case answer != "ok":
		w.seen["insert: "+strings.TrimRight(answer, "0123456789")]++
	case !commit:
		w.seen["roll back"]++
	default:
		w.seen[what]++
		w.rows = append(w.rows, rows...)
	}
}

// fitting lists what usually happens to a delivery in state s, often as often.
func fitting(s *lifecycle.State) []lifecycle.EventKind {
	switch s.Status {
	case lifecycle.Pending:
		return []lifecycle.EventKind{
			lifecycle.EvSweep, lifecycle.EvSweep, lifecycle.EvHandClaim, lifecycle.EvHandClaim, lifecycle.EvHandClaim, lifecycle.EvHandClaim,
			lifecycle.EvUnserved, lifecycle.EvCancel, lifecycle.EvErase,
		}
	case lifecycle.Leased:
		return []lifecycle.EventKind{
			lifecycle.EvStart, lifecycle.EvStart, lifecycle.EvStart, lifecycle.EvStart, lifecycle.EvStart, lifecycle.EvStart,
			lifecycle.EvStart, lifecycle.EvStart, lifecycle.EvStart, lifecycle.EvUndecided, lifecycle.EvReleased, lifecycle.EvPanicked,
			lifecycle.EvStopped, lifecycle.EvCancel, lifecycle.EvSweep, lifecycle.EvUnserved,
		}
	case lifecycle.Delivering:
		switch {
		case !s.InFlight:
			return []lifecycle.EventKind{
				lifecycle.EvStart, lifecycle.EvStart, lifecycle.EvInterrupted, lifecycle.EvInterrupted, lifecycle.EvInterrupted, lifecycle.EvCancel,
			}
		case s.Contract.Retry == lifecycle.Process && s.Contract.MaxAttempts == 0:
			return []lifecycle.EventKind{
				lifecycle.EvHandAttempt, lifecycle.EvHandAttempt, lifecycle.EvHandDelivered, lifecycle.EvHandFailed, lifecycle.EvResolved,
			}
		}
		if s.Contract.Retry == lifecycle.Process {
			return []lifecycle.EventKind{
				lifecycle.EvRefused, lifecycle.EvNotSent, lifecycle.EvRefused, lifecycle.EvRejected, lifecycle.EvUnknown, lifecycle.EvSucceeded,
			}
		}
		return []lifecycle.EventKind{
			lifecycle.EvRefused, lifecycle.EvSucceeded, lifecycle.EvUnknown, lifecycle.EvNotSent, lifecycle.EvRejected,
			lifecycle.EvUnknown, lifecycle.EvSweep, lifecycle.EvSweep, lifecycle.EvSweep, lifecycle.EvResolved,
		}
	case lifecycle.Succeeded:
		return []lifecycle.EventKind{lifecycle.EvCallbackFailed, lifecycle.EvCallbackFailed, lifecycle.EvSucceeded}
	}
	return []lifecycle.EventKind{lifecycle.EvResolved, lifecycle.EvHandFailed}
}

var stopCodes = []lifecycle.Code{
	lifecycle.AuthorityRevoked, lifecycle.RecordChanged, lifecycle.CancelledByHandler, lifecycle.EffectNotCalled, lifecycle.Poisoned,
}

// event draws what happens to a delivery in state s.
func (w *world) event(s *lifecycle.State) lifecycle.Event {
	kinds := fitting(s)
	if w.oneIn(8, "anything") {
		kinds = lifecycle.EventKinds()
	}
	e := lifecycle.Event{
		Kind: pick(w, kinds, "event"), Owner: s.Owner, Generation: s.Generation, Attempt: s.AttemptNo(),
		Digest: digest, Wait: w.units(3, "wait"), Retryable: w.oneIn(2, "retryable"),
		Told:  lifecycle.Outcome(w.upTo(5, "told")),
		Error: pick(w, []string{"", "text"}, "error"), HTTPStatus: pick(w, []int{0, 503}, "http status"),
		Contract: shapes[w.upTo(4, "contract")], Code: pick(w, stopCodes, "code"),
	}
	switch e.Kind {
	case lifecycle.EvUnserved:
		e.Code = lifecycle.ChannelMissing
	case lifecycle.EvClaim, lifecycle.EvHandClaim:
		e.Owner = lifecycle.Token(w.id())
		w.owners = append(w.owners, e.Owner)
	}
	if w.oneIn(10, "another request") {
		e.Digest = lifecycle.Digest{2}
	}
	if w.oneIn(10, "former owner") && len(w.owners) > 0 {
		e.Owner = pick(w, w.owners, "owner")
		e.Generation = max(1, e.Generation-1)
	}
	return e
}

// act lets things happen to some deliveries, in one batch.
func (w *world) act() {
	events := map[driver.ID]lifecycle.Event{}
	records := w.load(&w.sides[0])
	for _, r := range records {
		s := r.State.Status
		running := !r.State.Erased && (s == lifecycle.Leased || s == lifecycle.Delivering || s == lifecycle.Succeeded && r.State.Code == "")
		if running && len(events) < 5 && !w.oneIn(2, "leave alone") {
			events[r.Intent.Ref] = w.event(&r.State)
		}
	}
	if len(records) > 0 && w.oneIn(2, "any other") {
		if r := pick(w, records, "delivery"); events[r.Intent.Ref].Kind == 0 {
			events[r.Intent.Ref] = w.event(&r.State)
		}
	}
	var ts [2][]lifecycle.Transition
	w.both("decisions", func(s *side) string {
		text, mine := "", 0
		if s == &w.sides[1] {
			mine = 1
		}
		for _, r := range w.load(s) {
			e, there := events[r.Intent.Ref]
			if !there {
				continue
			}
			// A store may read its clock once for a batch or once for each row, so that
			// rows of a batch must not come to the same due time.
			e.Wait += time.Duration(len(ts[mine])) * 100 * time.Millisecond
			t := historyPolicy.Apply(r.State, e)
			t.Ref = r.Intent.Ref
			ts[mine] = append(ts[mine], t)
			text += fmt.Sprintf("%s of %s: %s %s %s\n", e.Kind, r.Intent.Ref, t.Answer, t.Code, t.Set.Status)
		}
		return text
	})
	keep := w.oneIn(3, "keep")
	for i := range ts[0] {
		if keep && ts[0][i].Answer == lifecycle.Apply {
			w.stale = append(w.stale, [2]lifecycle.Transition{ts[0][i], ts[1][i]})
		}
	}
	if keep && w.oneIn(3, "hold back") {
		return // sent, and not arrived yet
	}
	held := w.send(ts)
	for i, t := range ts[0] {
		if held[i] {
			w.seen[events[driver.ID(t.Ref)].Kind.String()]++
		}
	}
}

// send applies one batch on each side, and appends the late evidence in it.
func (w *world) send(ts [2][]lifecycle.Transition) []bool {
	var held []bool
	w.both("apply", func(s *side) string {
		mine := ts[0]
		if s == &w.sides[1] {
			mine = ts[1]
		}
		got, err := s.Apply(w.ctx, mine)
		if err != nil {
			w.seen["refused by a check"]++
			got = make([]bool, len(mine))
		}
		held = got
		var late []driver.Logged
		for _, t := range mine {
			if t.Answer == lifecycle.Refuse && t.Log != nil && t.Log.Number > 0 {
				late = append(late, driver.Logged{Ref: t.Ref, Attempt: *t.Log})
				w.seen["late evidence"]++
			}
		}
		return fmt.Sprint(got, fault(err), fault(s.Append(w.ctx, late)))
	})
	return held
}

// replay sends writes again, or for the first time and late.
func (w *world) replay() {
	if len(w.stale) == 0 {
		return
	}
	var ts [2][]lifecycle.Transition
	var refs []driver.ID
	for range 1 + w.upTo(3, "writes") {
		pair := pick(w, w.stale, "write")
		if ref := driver.ID(pair[0].Ref); !slices.Contains(refs, ref) {
			refs = append(refs, ref)
			ts[0], ts[1] = append(ts[0], pair[0]), append(ts[1], pair[1])
		}
	}
	for i, h := range w.send(ts) {
		switch {
		case h:
			w.seen["arrived late and held"]++
		case ts[0][i].Answer == lifecycle.Apply:
			w.seen["arrived late and was fenced"]++
		}
	}
}

// run opens and seals a run.
func (w *world) run() {
	r := driver.Run{ID: w.id(), Operation: "triage", Actor: "staff:7", Tenant: "tenant:1", Subject: pick(w, []string{"", "s1"}, "subject")}
	commit := !w.oneIn(3, "roll back")
	w.both("run", func(s *side) string {
		return fault(s.within(w.ctx, commit, func(tx driver.Tx) error {
			if err := tx.OpenRun(w.ctx, r); err != nil {
				return err
			}
			sealed := r
			sealed.SecurityVersion, sealed.Target, sealed.TargetVersion, sealed.Receipt = "v3", "ticket:9", "4", []byte(`{"ok":true}`)
			return tx.SealRun(w.ctx, sealed)
		}))
	})
	w.seen["run"]++
}

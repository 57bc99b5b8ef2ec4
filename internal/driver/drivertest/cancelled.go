package drivertest

import (
	"context"
	"fmt"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

func cancelledTests[TX any]() []test[TX] {
	return []test[TX]{
		{"before the call nothing happens", "a call whose context is over changes nothing", cancelledBefore[TX]},
		{"a claim cut off anywhere is looked up", "a claim without an answer is known by its owner", claimCutOff[TX]},
		{"a write cut off anywhere is all or nothing", "a batch without an answer has been applied whole or not at all", applyCutOff[TX]},
		{"an insert cut off anywhere is all or nothing", "a commit without an answer is looked up by its refs", insertCutOff[TX]},
	}
}

func cancelledBefore[TX any](b *bench[TX]) {
	ref := b.add(b.message("mail", about("customer:1")))
	ended := b.inFlight(b.message("mail"))
	b.apply(ended, is(lifecycle.EvSucceeded))
	t := b.decide(ref, is(lifecycle.EvCancel))
	raw, tx := b.begin()
	over, cancel := context.WithCancel(b.ctx)
	cancel()
	inserted := tx.Insert(over, []driver.New{b.message("mail")})
	b.ok("rollback", tx.Rollback(b.ctx))
	before := b.everything()
	r := request(9, "m:mail")
	claim := func(_ any, err error) error { return err }
	for what, err := range map[string]error{
		"insert":  inserted,
		"claim":   claim(b.Bound.Claim(over, r)),
		"held":    claim(b.Bound.Held(over, r)),
		"due":     claim(b.Bound.Due(over, r)),
		"apply":   claim(b.Bound.Apply(over, []lifecycle.Transition{t})),
		"append":  b.Bound.Append(over, []driver.Logged{late(ref, lifecycle.Unknown)}),
		"load":    claim(b.Bound.Load(over, []driver.ID{ref})),
		"history": claim(b.Bound.History(over, ref)),
		"routes":  claim(b.Bound.Routes(over)),
		"erase":   claim(b.Bound.Erase(over, []string{"customer:1"})),
		"prune":   claim(b.Bound.Prune(over, lifecycle.Message, b.clock().Add(time.Hour), 9)),
		"now":     claim(b.Bound.Now(over)),
		"view":    b.Bound.View(over, func(TX) error { return nil }),
		"view in": b.Bound.ViewIn(over, raw, func(TX) error { return nil }),
	} {
		b.that(err != nil, "%s succeeds after its context is over", what)
	}
	for what, call := range map[string]func() error{
		"run":            func() error { _, _, err := b.Bound.Run(over, ref); return err },
		"approval":       func() error { _, _, err := b.Bound.Approval(over, ref); return err },
		"open approvals": func() error { _, err := b.Bound.OpenApprovals(over, driver.OpenApprovals{Limit: 1}); return err },
	} {
		b.that(call() != nil, "%s succeeds after its context is over", what)
	}
	_, _, err := b.Bound.Begin(over)
	b.that(err != nil, "begin succeeds after its context is over")
	_, _, err = b.Bound.Overdue(over, driver.OverdueRequest{})
	b.that(err != nil, "overdue succeeds after its context is over")
	b.that(b.everything() == before, "a call whose context was over changed rows")
}

// cuts are the times after which calls are cut off: some before they reach the
// database, some in the middle, some after their end. What a test checks holds
// for each of them.
func (b *bench[TX]) cuts(call func(ctx context.Context)) {
	for after := 20 * time.Microsecond; after < 20*time.Millisecond; after = after * 5 / 4 {
		ctx, cancel := context.WithTimeout(b.ctx, after)
		call(ctx)
		cancel()
	}
}

func claimCutOff[TX any](b *bench[TX]) {
	round := 0
	b.cuts(func(ctx context.Context) {
		round++
		channel, work := fmt.Sprint("channel ", round), b.work(fmt.Sprint("kind ", round))
		b.insert(b.message(channel), b.message(channel), work)
		r := request(9, "m:"+channel, work.Route())
		got, err := b.Bound.Claim(ctx, r)
		held, lookup := b.Bound.Held(b.ctx, r)
		b.ok("held", lookup)
		b.that(err != nil || len(got) == len(held), "claimed %d, held %d", len(got), len(held))
		b.that(len(held) == 0 || len(held) == 3, "a claim took %d of 3", len(held))
		for _, c := range held {
			b.that(c.State.Owner == r.Owner && c.State.Generation == 1, "held %+v", c.State)
			b.apply(c.Intent.Ref, is(lifecycle.EvStart))
		}
	})
}

func applyCutOff[TX any](b *bench[TX]) {
	b.cuts(func(ctx context.Context) {
		refs := []driver.ID{b.inFlight(b.message("mail")), b.inFlight(b.message("mail"))}
		var ts []lifecycle.Transition
		for _, ref := range refs {
			ts = append(ts, b.decide(ref, lifecycle.Event{Kind: lifecycle.EvRejected, Error: "no"}))
		}
		held, err := b.Bound.Apply(ctx, ts)
		// What was cut off may still be on its way. Sent again it either holds, and
		// what comes late is refused, or what was cut off has been applied before.
		again, unanswered := b.Bound.Apply(b.ctx, ts)
		b.ok("apply again", unanswered)
		b.that(again[0] == again[1], "sent again it held %v: the first was applied in part", again)
		b.that(err != nil || held[0] && held[1] && !again[0], "held %v, and sent again %v", held, again)
		for _, ref := range refs {
			b.that(b.record(ref).State.Status == lifecycle.Failed, "it was not applied")
			b.that(len(b.history(ref)) == 1, "the log row and the change are not one write")
		}
	})
}

func insertCutOff[TX any](b *bench[TX]) {
	b.cuts(func(ctx context.Context) {
		rows := []driver.New{b.message("mail"), b.message("mail")}
		_, tx, err := b.Bound.Begin(b.ctx)
		b.ok("begin", err)
		err = tx.Insert(ctx, rows)
		if err == nil {
			err = tx.Commit(ctx)
		}
		if err != nil {
			tx.Rollback(b.ctx)
		}
		records, lookup := b.Bound.Load(b.ctx, []driver.ID{rows[0].Ref, rows[1].Ref})
		b.ok("load", lookup)
		b.that(len(records) == 0 || len(records) == 2, "%d of 2 rows were written", len(records))
		b.that(err != nil || len(records) == 2, "committed, and %d of 2 rows are there", len(records))
		for i := range rows {
			rows[i].Given = true // what was cut off may arrive at this very moment
		}
		b.insert(rows...)
	})
}

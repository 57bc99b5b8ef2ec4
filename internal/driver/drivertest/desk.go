package drivertest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

func deskTests[TX any]() []test[TX] {
	return []test[TX]{
		{"review is what waits for a person", "work for reconciliation, uncertain failures, stranded messages; the oldest first", deskReview[TX]},
		{"review forgets what is decided", "what has a finding or a successor waits for nobody", deskDecided[TX]},
		{"what is open is walked by route", "a list of millions is read in bounded parts", deskOpen[TX]},
		{"what has ended is walked by age", "the newest first, of one status, within a time", deskEnded[TX]},
		{"what is in process is walked by lease", "a started loop is in no other index", deskLoops[TX]},
		{"a subject is walked whatever the status", "a person can be told what is stored about them", deskSubject[TX]},
		{"counts are bounded", "counting never reads a whole table", deskTallies[TX]},
		{"what ended lately is counted by part", "how things went lately never reads a whole table", deskRecent[TX]},
		{"chains are followed both ways", "what came late for one shows on all", deskChains[TX]},
		{"logs of many are read at once", "each in the order in which it was written", deskLogs[TX]},
		{"the audit is read backwards", "the newest first, of one intent or of all", deskAudits[TX]},
		{"programs tell their contracts", "what is sent again takes the current one", deskContracts[TX]},
	}
}

// review returns all of the review list, read in pages of two.
func (b *bench[TX]) review() []driver.ID {
	b.t.Helper()
	var refs []driver.ID
	for after := (driver.Place{}); ; {
		page, err := b.desk().Review(b.ctx, after, 2)
		b.ok("review", err)
		for _, p := range page {
			refs = append(refs, p.Ref)
			after = p
		}
		if len(page) < 2 {
			return refs
		}
	}
}

func deskReview[TX any](b *bench[TX]) {
	refused := b.inReview()
	b.shift(time.Minute)
	unsure := b.inFlight(b.message("mail", under(with(scheduled, once))))
	b.apply(unsure, is(lifecycle.EvUnknown))
	b.shift(time.Minute)
	certain := b.inFlight(b.message("mail"))
	b.apply(certain, is(lifecycle.EvRejected))
	b.ended(1)
	b.insert(b.message("mail"), b.work("triaged"))
	stranded := b.inFlight(b.message("loop", under(looped)))
	b.that(slices.Equal(b.review(), []driver.ID{refused, unsure}), "review %v, want %v", b.review(), []driver.ID{refused, unsure})
	b.shift(lease + time.Minute)
	b.that(slices.Equal(b.review(), []driver.ID{refused, unsure, stranded}), "review %v", b.review())
	for limit, want := range map[int]driver.InReview{2: {N: 2, Capped: true}, 3: {N: 3}, 100: {N: 3}} {
		w, err := b.desk().InReview(b.ctx, limit)
		b.ok("waiting", err)
		b.that(w.N == want.N && w.Capped == want.Capped && near(w.Oldest, b.record(refused).ReviewAt), "waiting %+v, want %+v", w, want)
	}
}

func deskDecided[TX any](b *bench[TX]) {
	found, sent, erased := b.inReview(), b.inReview(), b.inReview(about("customer:1"))
	stranded := b.inFlight(b.message("loop", under(looped)))
	b.shift(lease + time.Minute)
	b.that(len(b.review()) == 4, "review %v", b.review())
	b.that(b.act(b.finding(found)) && b.act(b.again(sent, driver.Redelivery)) && b.act(b.finding(stranded)), "an action did not hold")
	b.erase("customer:1")
	b.that(len(b.review()) == 0, "review %v", b.review())
	w, err := b.desk().InReview(b.ctx, 10)
	b.that(err == nil && w == driver.InReview{}, "waiting %+v, %v", w, err)
	b.that(b.record(stranded).State.Uncertain && b.record(erased).State.Erased, "marks are lost")
}

// listed follows a walk to its end in steps of r.Limit rows.
func (b *bench[TX]) listed(r driver.WalkRequest) []driver.ID {
	b.t.Helper()
	var refs []driver.ID
	for range 100 {
		found, next, err := b.desk().Walk(b.ctx, r)
		b.ok("walk", err)
		b.that(len(found) <= r.Limit, "%d found in %d rows", len(found), r.Limit)
		for _, p := range found {
			refs = append(refs, p.Ref)
		}
		if next == (driver.Place{}) {
			return refs
		}
		r.After = next
	}
	b.t.Fatal("the walk does not end")
	return nil
}

// same compares refs whatever their order.
func (b *bench[TX]) same(what string, got []driver.ID, want ...driver.ID) {
	b.t.Helper()
	text := func(refs []driver.ID) string {
		var out []string
		for _, r := range refs {
			out = append(out, r.String())
		}
		slices.Sort(out)
		return strings.Join(out, "\n")
	}
	b.that(text(got) == text(want), "%s:\n%s\nwant\n%s", what, text(got), text(want))
}

func deskOpen[TX any](b *bench[TX]) {
	mail := b.insert(b.message("mail"), b.message("mail"), b.message("mail"))
	mails := b.add(b.message("mails"))
	triaged := b.insert(b.work("triaged"), b.work("triaged"))
	nested := b.add(b.work("triaged:late"))
	b.take(mail[1])
	b.take(mail[2])
	b.apply(mail[2], is(lifecycle.EvStart))
	b.ended(1)
	b.insert(b.message("mail", about("customer:1")))
	b.erase("customer:1")
	for limit := 1; limit < 4; limit++ {
		ask := func(p lifecycle.Profile, kind string, statuses ...lifecycle.Status) []driver.ID {
			return b.listed(driver.WalkRequest{Among: driver.Open, Profile: p, Kind: kind, Statuses: statuses, Limit: limit})
		}
		b.same("mail", ask(lifecycle.Message, "mail"), mail...)
		b.same("messages", ask(lifecycle.Message, ""), append(slices.Clone(mail), mails)...)
		b.same("triaged", ask(lifecycle.Work, "triaged"), triaged...)
		b.same("work", ask(lifecycle.Work, ""), append(slices.Clone(triaged), nested)...)
		b.same("pending", ask(lifecycle.Message, "mail", lifecycle.Pending), mail[0])
		b.same("held", ask(lifecycle.Message, "", lifecycle.Leased, lifecycle.Delivering), mail[1], mail[2])
		b.same("no such", ask(lifecycle.Work, "mail"))
	}
}

func deskEnded[TX any](b *bench[TX]) {
	old := b.ended(2)
	b.shift(time.Hour)
	young := b.ended(3)
	rejected := b.inFlight(b.message("chat"))
	b.apply(rejected, is(lifecycle.EvRejected))
	work := b.inFlight(b.work("triaged"))
	b.apply(work, is(lifecycle.EvSucceeded))
	gone := b.ended(1, about("customer:1"))
	b.erase("customer:1")
	b.that(b.record(gone[0]).State.Erased, "not erased")
	half := b.clock().Add(-30 * time.Minute)
	for limit := 1; limit < 8; limit += 3 {
		ask := driver.WalkRequest{Among: driver.Ended, Profile: lifecycle.Message, Statuses: []lifecycle.Status{lifecycle.Succeeded}, Limit: limit}
		want := append(slices.Clone(young), old...)
		b.same("delivered", b.listed(ask), want...)
		got := b.listed(ask)
		b.that(slices.Contains(old, got[4]) && slices.Contains(old, got[3]), "not the newest first: %v", got)
		early, late := ask, ask
		early.Before, late.From = half, half
		b.same("before", b.listed(early), old...)
		b.same("from", b.listed(late), young...)
		failed := ask
		failed.Statuses = []lifecycle.Status{lifecycle.Failed}
		b.same("failed", b.listed(failed), rejected)
		failed.Code = lifecycle.OutcomeUnknown
		b.same("code", b.listed(failed))
		failed.Code, failed.Kind = lifecycle.OutcomeRejected, "chat"
		b.same("code and kind", b.listed(failed), rejected)
		failed.Kind = "mail"
		b.same("another kind", b.listed(failed))
		ask.Profile = lifecycle.Work
		b.same("work", b.listed(ask), work)
	}
	made := b.record(young[0]).Intent.CreatedAt
	exact := driver.WalkRequest{Among: driver.Ended, Profile: lifecycle.Message, Statuses: []lifecycle.Status{lifecycle.Succeeded}, Limit: 9, Before: made}
	b.that(!slices.Contains(b.listed(exact), young[0]), "what was created at the very time counts as earlier")
}

func deskLoops[TX any](b *bench[TX]) {
	first := b.inFlight(b.message("loop", under(looped)))
	b.shift(time.Minute)
	second := b.inFlight(b.message("hoop", under(looped)))
	b.inReview()
	for limit := 1; limit < 4; limit++ {
		ask := driver.WalkRequest{Among: driver.InProcess, Profile: lifecycle.Message, Limit: limit}
		got := b.listed(ask)
		b.that(slices.Equal(got, []driver.ID{first, second}), "walk %v", got)
		ask.Kind = "hoop"
		b.same("hoop", b.listed(ask), second)
	}
}

func deskSubject[TX any](b *bench[TX]) {
	refs := b.insert(b.message("mail", about("customer:1")), b.work("triaged", about("customer:1")), b.message("chat", about("customer:1")))
	b.insert(b.message("mail", about("customer:2")), b.message("mail"))
	b.inFlight(b.message("mail", about("customer:3")))
	for limit := 1; limit < 4; limit++ {
		ask := driver.WalkRequest{Among: driver.OfSubject, Subject: "customer:1", Limit: limit}
		b.same("all", b.listed(ask), refs...)
		ask.Profile = lifecycle.Message
		b.same("messages", b.listed(ask), refs[0], refs[2])
		ask.Kind = "chat"
		b.same("chat", b.listed(ask), refs[2])
	}
	b.same("nobody's", b.listed(driver.WalkRequest{Among: driver.OfSubject, Limit: 5}))
	b.erase("customer:1")
	b.same("erased", b.listed(driver.WalkRequest{Among: driver.OfSubject, Subject: "customer:1", Limit: 5}))
}

func deskTallies[TX any](b *bench[TX]) {
	b.ended(1, about("customer:1"))
	b.erase("customer:1")
	b.shift(time.Minute)
	mail := b.insert(b.message("mail"), b.message("mail"), b.message("mail"))
	b.take(mail[0])
	b.insert(b.work("triaged"))
	b.ended(4)
	b.inReview()
	b.inFlight(b.message("loop", under(looped)))
	count := func(limit int) string {
		list, err := b.desk().Tallies(b.ctx, limit)
		b.ok("tallies", err)
		var lines []string
		for _, t := range list {
			lines = append(lines, fmt.Sprintf("%d %s %s %s %d %v", t.Among, t.Profile, t.Kind, t.Status, t.N, t.Capped))
		}
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	want := `0 message mail leased 1 false
0 message mail pending 2 false
0 work triaged pending 1 false
1 message loop delivering 1 false
2 message mail succeeded 4 false
2 work triaged reconciliation_required 1 false`
	b.that(count(100) == want, "counted\n%s\nwant\n%s", count(100), want)
	for _, line := range []string{"2 message mail succeeded 2 true", "1 message loop delivering 1 false", "0 work triaged pending 1 false"} {
		b.that(strings.Contains(count(2), line), "counted\n%s\nwithout\n%s", count(2), line)
	}
	b.that(strings.Count(count(2), "true") >= 2, "the open ones are not capped:\n%s", count(2))
}

func deskChains[TX any](b *bench[TX]) {
	first := b.inReview()
	a := b.again(first, driver.Redelivery)
	b.that(b.act(a), "not sent again")
	second := a.Successor.Ref
	b.take(second)
	b.apply(second, is(lifecycle.EvStart))
	b.apply(second, is(lifecycle.EvRejected))
	a = b.again(second, driver.Reissue)
	b.that(b.act(a), "not sent again")
	third, alone := a.Successor.Ref, b.add(b.message("mail"))
	rows, err := b.desk().Chains(b.ctx, []driver.ID{second, alone, driver.NewID(), first})
	b.ok("chains", err)
	of := map[driver.ID][]driver.ID{}
	for _, c := range rows {
		of[c.Asked] = append(of[c.Asked], c.Ref)
		switch c.Ref {
		case first, alone:
			b.that(c.Predecessor == (driver.ID{}) && c.Link == driver.First, "link %+v", c)
		case second:
			b.that(c.Predecessor == first && c.Link == driver.Redelivery, "link %+v", c)
		case third:
			b.that(c.Predecessor == second && c.Link == driver.Reissue, "link %+v", c)
		}
	}
	b.same("from the middle", of[second], first, second, third)
	b.same("from the front", of[first], first, second, third)
	b.same("alone", of[alone], alone)
	b.that(len(of) == 3, "chains of %d, want 3", len(of))
}

func deskLogs[TX any](b *bench[TX]) {
	one, other, none := b.inReview(), b.inReview(), b.add(b.message("mail"))
	b.ok("append", b.Bound.Append(b.ctx, []driver.Logged{late(one, lifecycle.Accepted)}))
	log, err := b.desk().Logs(b.ctx, []driver.ID{one, other, none})
	b.ok("logs", err)
	for _, ref := range []driver.ID{one, other, none} {
		mine := slices.DeleteFunc(slices.Clone(log), func(l driver.Logged) bool { return l.Ref != ref })
		b.that(slices.Equal(mine, b.history(ref)), "log of %s: %+v, want %+v", ref, mine, b.history(ref))
	}
	b.that(len(log) == 3, "%d rows, want 3", len(log))
}

func deskAudits[TX any](b *bench[TX]) {
	one, other := b.inReview(), b.inReview()
	for _, ref := range []driver.ID{one, other, one, one} {
		a := b.finding(ref)
		found, err := b.desk().Resolutions(b.ctx, []driver.ID{ref})
		b.ok("resolutions", err)
		if len(found) > 0 {
			a.Resolution.Supersedes = found[len(found)-1].ID
		}
		b.that(b.act(a), "no finding")
	}
	ask := func(r driver.AuditRequest) (refs []driver.ID, last int64) {
		rows, err := b.desk().Audits(b.ctx, r)
		b.ok("audits", err)
		for _, row := range rows {
			b.that(last == 0 || row.ID < last, "not the newest first: %+v", rows)
			refs, last = append(refs, row.Ref), row.ID
		}
		return refs, last
	}
	all, last := ask(driver.AuditRequest{Limit: 3})
	b.that(slices.Equal(all, []driver.ID{one, one, other}), "audit of %v", all)
	rest, _ := ask(driver.AuditRequest{Limit: 3, Before: last})
	b.that(slices.Equal(rest, []driver.ID{one}), "the rest is of %v", rest)
	mine, last := ask(driver.AuditRequest{Ref: one, Limit: 2})
	b.that(slices.Equal(mine, []driver.ID{one, one}), "audit of %v", mine)
	mine, _ = ask(driver.AuditRequest{Ref: one, Limit: 2, Before: last})
	b.that(slices.Equal(mine, []driver.ID{one}), "audit of %v", mine)
}

func deskContracts[TX any](b *bench[TX]) {
	unlimited := with(scheduled, func(c *lifecycle.Contract) { c.MaxAge, c.Idempotent = 0, false })
	serves := []driver.Serves{
		{Profile: lifecycle.Work, Kind: "triaged", Version: "2", Fingerprint: [32]byte{2}, Contract: scheduled},
		{Profile: lifecycle.Work, Kind: "triaged", Version: "1", Upgrade: true, Contract: scheduled},
		{Profile: lifecycle.Message, Kind: "loop", Contract: looped},
		{Profile: lifecycle.Message, Kind: "mail", Contract: unlimited},
		{Profile: lifecycle.Message, Kind: "by hand"},
	}
	b.ok("register", b.registry().Register(b.ctx, driver.Program{ID: driver.NewID(), Name: "web", Serves: serves}))
	got, err := b.registry().Serving(b.ctx, time.Minute)
	b.ok("serving", err)
	b.that(len(got) == len(serves), "%d served, want %d", len(got), len(serves))
	for _, want := range serves {
		b.that(slices.Contains(got, want), "%+v is not among %+v", want, got)
	}
}

package drivertest

import (
	"fmt"
	"reflect"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

func runTests[TX any]() []test[TX] {
	return []test[TX]{
		{"is written and sealed", "a run carries what was admitted and what it left behind", runSealed[TX]},
		{"is sealed once, where it was opened", "a sealed run never changes", runSealedOnce[TX]},
		{"is read again", "what a run left behind can be looked up by its id", runRead[TX]},
		{"commits with its work", "run, work and receipt commit together or not at all", runWithWork[TX]},
	}
}

func runSealed[TX any](b *bench[TX]) {
	run := driver.Run{
		ID: driver.NewID(), Operation: "triage", Actor: "staff:7", Tenant: "tenant:1", Subject: "customer:1",
		InputDigest: digest, Work: []driver.ID{driver.NewID(), driver.NewID()},
	}
	bare := driver.Run{ID: driver.NewID(), Operation: "create", Actor: "staff:7", Tenant: "tenant:1"}
	for _, r := range []driver.Run{run, bare} {
		_, tx := b.begin()
		b.ok("open run", tx.OpenRun(b.ctx, r))
		r.SecurityVersion, r.Target, r.TargetVersion = "v3", "ticket:9", "4"
		if r.Subject != "" {
			r.Receipt = []byte(`{"status":"triaged","ü":null}`)
		}
		b.ok("seal run", tx.SealRun(b.ctx, r))
		b.ok("commit", tx.Commit(b.ctx))
	}
	rows, err := b.Rows(b.ctx, "run")
	b.ok("rows", err)
	b.that(len(rows) == 2, "%d runs", len(rows))
	want := fmt.Sprintf(`run actor="staff:7" created_at=+0u input_digest=%x operation="triage" receipt=%q sealed_at=+0u`+
		` security_version="v3" subject="customer:1" target="ticket:9" target_version="4" tenant="tenant:1" work=%x`,
		run.InputDigest, `{"status":"triaged","ü":null}`, run.WorkBytes())
	wantBare := `run actor="staff:7" created_at=+0u operation="create" sealed_at=+0u security_version="v3" target="ticket:9"` +
		` target_version="4" tenant="tenant:1"`
	for _, row := range rows {
		id, err := toID(row["id"])
		b.ok("id", err)
		delete(row, "id")
		row["id"] = nil
		line, err := b.line("run", row, b.clock(), lease)
		b.ok("line", err)
		w := want
		if id == bare.ID {
			w = wantBare
		}
		b.that(line == w, "stored\n%s, want\n%s", line, w)
	}
	b.that(b.count("audit") == 2, "%d audit rows, want one for each run", b.count("audit"))
	audits, err := b.Rows(b.ctx, "audit")
	b.ok("rows", err)
	for _, row := range audits {
		id, err := toID(row["run_id"])
		b.that(err == nil && (id == run.ID || id == bare.ID), "an audit row names the run %v", row["run_id"])
		by, err := b.format(asText, row["made_by"], b.clock(), lease)
		b.that(err == nil && by == `"staff:7"`, "an audit row is made by %s", by)
	}
}

func runSealedOnce[TX any](b *bench[TX]) {
	run := driver.Run{ID: driver.NewID(), Operation: "triage", Actor: "staff:7", Tenant: "tenant:1"}
	sealed := run
	sealed.SecurityVersion, sealed.Target, sealed.TargetVersion, sealed.Receipt = "v3", "ticket:9", "4", []byte(`1`)
	_, tx := b.begin()
	b.ok("open run", tx.OpenRun(b.ctx, run))
	b.ok("seal run", tx.SealRun(b.ctx, sealed))
	b.ok("commit", tx.Commit(b.ctx))
	twice := driver.Run{ID: driver.NewID(), Operation: "triage", Actor: "staff:7", Tenant: "tenant:1"}
	_, tx = b.begin()
	b.ok("open run", tx.OpenRun(b.ctx, twice))
	twice.SecurityVersion, twice.Target, twice.TargetVersion = "v3", "ticket:9", "4"
	b.ok("seal run", tx.SealRun(b.ctx, twice))
	b.that(tx.SealRun(b.ctx, twice) != nil, "a run was sealed twice in its transaction")
	b.ok("rollback", tx.Rollback(b.ctx))
	before := b.everything()
	sealed.Receipt = []byte(`2`)
	for _, r := range []driver.Run{sealed, {ID: driver.NewID(), SecurityVersion: "v3", Target: "ticket:9", TargetVersion: "4"}} {
		_, tx := b.begin()
		b.that(tx.SealRun(b.ctx, r) != nil, "a run was sealed that is not open")
		b.ok("rollback", tx.Rollback(b.ctx))
	}
	_, tx = b.begin()
	b.that(tx.OpenRun(b.ctx, run) != nil, "a run was opened twice")
	b.ok("rollback", tx.Rollback(b.ctx))
	b.that(b.everything() == before, "rows changed")
}

func runRead[TX any](b *bench[TX]) {
	missing := func(what string, id driver.ID) {
		b.t.Helper()
		got, found, err := b.Bound.Run(b.ctx, id)
		b.ok("run", err)
		b.that(!found && got.ID == driver.ID{}, "%s is read: %+v", what, got)
	}
	run := driver.Run{
		ID: driver.NewID(), Operation: "triage", Actor: "staff:7", Tenant: "tenant:1", Target: "ticket:9", Subject: "customer:1",
		InputDigest: digest,
	}
	missing("a run that nobody opened", run.ID)
	_, tx := b.begin()
	b.ok("open run", tx.OpenRun(b.ctx, run))
	b.ok("commit", tx.Commit(b.ctx))
	missing("a run that was never sealed", run.ID)
	run.ID = driver.NewID()
	sealed := run
	sealed.SecurityVersion, sealed.TargetVersion, sealed.Receipt = "v3", "4", []byte(`{"ü":1}`)
	sealed.Work = []driver.ID{driver.NewID(), driver.NewID(), driver.NewID()}
	for _, commit := range []bool{false, true} {
		_, tx := b.begin()
		b.ok("open run", tx.OpenRun(b.ctx, run))
		b.ok("seal run", tx.SealRun(b.ctx, sealed))
		if !commit {
			b.ok("rollback", tx.Rollback(b.ctx))
			missing("a run that was rolled back", run.ID)
			continue
		}
		b.ok("commit", tx.Commit(b.ctx))
	}
	got, found, err := b.Bound.Run(b.ctx, run.ID)
	b.ok("run", err)
	b.that(found && !got.CreatedAt.IsZero() && !got.SealedAt.IsZero(), "%v, %+v", found, got)
	b.that(b.clock().Sub(got.SealedAt).Abs() < slack, "sealed at %v", got.SealedAt)
	got.CreatedAt, got.SealedAt = sealed.CreatedAt, sealed.SealedAt
	b.that(reflect.DeepEqual(got, sealed), "read\n%+v, want\n%+v", got, sealed)
	b.erase("customer:1")
	got, found, err = b.Bound.Run(b.ctx, run.ID)
	b.ok("run", err)
	b.that(found && got.Receipt == nil && got.Subject == "" && len(got.Work) == 3, "after an erasure: %+v", got)
}

func runWithWork[TX any](b *bench[TX]) {
	for _, commit := range []bool{false, true} {
		raw, tx := b.begin()
		run := driver.Run{ID: driver.NewID(), Operation: "triage", Actor: "staff:7", Tenant: "tenant:1"}
		b.ok("open run", tx.OpenRun(b.ctx, run))
		b.ok("write", b.Write(b.ctx, raw, "order"))
		w := b.work("triaged", func(n *driver.New) { n.Run = run.ID })
		b.ok("insert", tx.Insert(b.ctx, []driver.New{w}))
		run.SecurityVersion, run.Target, run.TargetVersion = "v3", "ticket:9", "4"
		b.ok("seal run", tx.SealRun(b.ctx, run))
		if commit {
			b.ok("commit", tx.Commit(b.ctx))
			b.that(b.record(w.Ref).State.Status == lifecycle.Pending && b.record(w.Ref).Intent.Run == run.ID, "record %+v", b.record(w.Ref))
		} else {
			b.ok("rollback", tx.Rollback(b.ctx))
		}
		for _, table := range []string{"run", "intent", "delivery", "audit"} {
			want := 0
			if commit {
				want = 1
			}
			b.that(b.count(table) == want, "committed is %v, and %s has %d rows", commit, table, b.count(table))
		}
		b.that(b.reads("order") == commit, "committed is %v, and the domain row is there: %v", commit, !commit)
	}
}

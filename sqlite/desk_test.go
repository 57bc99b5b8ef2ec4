package sqlite_test

import (
	"testing"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// useDesk calls everything that operators use, each in all its forms.
func useDesk(t *testing.T, d driver.Desk) {
	t.Helper()
	ctx, refs := t.Context(), []driver.ID{driver.NewID()}
	by := driver.Audited{By: "ann", Action: "look"}
	ended := []lifecycle.Status{lifecycle.Failed}
	after := driver.Place{Route: "m:mail", At: time.Now(), Ref: refs[0]}
	calls := []func() error{
		func() error { _, err := d.Review(ctx, driver.Place{}, 10); return err },
		func() error { _, err := d.InReview(ctx, 10); return err },
		func() error { _, err := d.Tallies(ctx, 10); return err },
		func() error {
			_, err := d.Recent(ctx, driver.RecentRequest{From: time.Now(), Part: time.Second, Parts: 1, Limit: 10})
			return err
		},
		func() error { _, err := d.Chains(ctx, refs); return err },
		func() error { _, err := d.Logs(ctx, refs); return err },
		func() error { _, err := d.Resolutions(ctx, refs); return err },
		func() error { _, err := d.Audits(ctx, driver.AuditRequest{Limit: 10}); return err },
		func() error { _, err := d.Audits(ctx, driver.AuditRequest{Ref: refs[0], Limit: 10}); return err },
		func() error { _, err := d.Pauses(ctx); return err },
		func() error { _, err := d.EraseFor(ctx, []string{"customer:1"}, by); return err },
		func() error { _, err := d.PruneFor(ctx, lifecycle.Message, time.Now(), 10, by); return err },
	}
	for _, r := range []driver.WalkRequest{
		{Among: driver.Open, Profile: lifecycle.Message},
		{Among: driver.InProcess, Profile: lifecycle.Message},
		{Among: driver.Ended, Profile: lifecycle.Message, Statuses: ended},
		{Among: driver.OfSubject, Subject: "customer:1"},
	} {
		r.Limit = 10
		calls = append(calls, func() error { _, _, err := d.Walk(ctx, r); return err })
		r.After = after
		calls = append(calls, func() error { _, _, err := d.Walk(ctx, r); return err })
	}
	for i, call := range calls {
		if err := call(); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	pause := &driver.Pause{Profile: lifecycle.Message, Kind: "mail", By: "ann"}
	for _, a := range []driver.Action{
		{Pause: pause, Audit: by}, {Resume: pause, Audit: by},
		{Resolution: &driver.Resolution{
			ID: driver.NewID(), Ref: refs[0], Finding: driver.FoundDelivered, Source: driver.FromPerson, By: "ann",
		}, Audit: by},
	} {
		if held, err := d.Act(ctx, &a); err != nil || !held {
			t.Fatal(held, err)
		}
	}
}

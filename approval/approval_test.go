package approval_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/approval"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/driver/memory"
)

// What races and what commits together is shown on the databases, by the tests of
// package consign. Here is what the package itself decides.

var (
	agent = consign.Entity{Type: "agent", ID: "1"}
	ann   = consign.Entity{Type: "staff", ID: "7"}
	bea   = consign.Entity{Type: "staff", ID: "8"}
	acme  = consign.Entity{Type: "tenant", ID: "3"}

	triage = consign.Operation{Name: "triage", Approval: consign.OtherConfirmer}
	asked  = consign.Admission{
		Operation: triage, Actor: ann, Tenant: acme, Target: consign.Entity{Type: "ticket", ID: "41"},
		Input: map[string]any{"to": "triaged"}, Subject: "session-9",
	}
)

func open(t *testing.T) (*memory.Store, *approval.Approvals[*memory.Tx]) {
	t.Helper()
	store := memory.New()
	a, err := approval.New(store)
	if err != nil {
		t.Fatal(err)
	}
	return store, a
}

func propose(t *testing.T, a *approval.Approvals[*memory.Tx], change ...func(*approval.Proposal)) consign.ID {
	t.Helper()
	p := approval.Proposal{Admission: asked, Proposer: agent, Reason: "it looks urgent"}
	for _, c := range change {
		c(&p)
	}
	id, err := a.ProposeNow(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func by(e consign.Entity, id consign.ID) approval.Decision {
	return approval.Decision{Approval: id, Tenant: acme, By: e, Reason: "read it"}
}

func codeOf(err error) consign.Code {
	var e *consign.Error
	errors.As(err, &e)
	if e == nil {
		return ""
	}
	return e.Code
}

func TestApprovalShowsWhatWasProposedAndDecided(t *testing.T) {
	store, a := open(t)
	now, err := store.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	id := propose(t, a)
	want := approval.Approval{
		ID: id, Operation: "triage", Actor: ann, Tenant: acme, Target: asked.Target, Subject: "session-9",
		Input: json.RawMessage(`{"to":"triaged"}`), Proposer: agent, Reason: "it looks urgent", OtherConfirmer: true,
		Status: approval.Open, CreatedAt: now, ExpiresAt: now.Add(approval.DefaultTTL),
	}
	got, err := a.Find(t.Context(), id)
	want.InputDigest = got.InputDigest
	if err != nil || !reflect.DeepEqual(got, want) || got.InputDigest == [32]byte{} {
		t.Errorf("found %+v, %v; want %+v", got, err, want)
	}
	store.Advance(time.Minute)
	want.Status, want.By, want.Decision, want.DecidedAt = approval.Confirmed, bea, "read it", now.Add(time.Minute)
	if got, err := a.Confirm(t.Context(), by(bea, id)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("confirmed %+v, %v; want %+v", got, err, want)
	}
	if got, err := a.Find(t.Context(), id); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("found %+v, %v; want %+v", got, err, want)
	}
	if _, err := a.Find(t.Context(), consign.NewRef().ID); !errors.Is(err, consign.ErrNotFound) {
		t.Errorf("an unknown one: %v", err)
	}
}

func TestDecisionIsFinalAndTold(t *testing.T) {
	_, a := open(t)
	confirmed, dismissed := propose(t, a), propose(t, a)
	if _, err := a.Confirm(t.Context(), by(bea, confirmed)); err != nil {
		t.Fatal(err)
	}
	if got, err := a.Dismiss(t.Context(), by(agent, dismissed)); err != nil || got.Status != approval.Dismissed {
		t.Fatalf("withdrawn by its proposer: %+v, %v", got, err)
	}
	for id, code := range map[consign.ID]consign.Code{confirmed: consign.CodeApprovalConfirmed, dismissed: consign.CodeApprovalDismissed} {
		for _, decide := range []func(context.Context, approval.Decision) (approval.Approval, error){a.Confirm, a.Dismiss} {
			if _, err := decide(t.Context(), by(ann, id)); !errors.Is(err, consign.ErrConflict) || codeOf(err) != code {
				t.Errorf("decided again: %v, want ErrConflict with %s", err, code)
			}
		}
	}
}

func TestProposerMayNotConfirmWhereAnotherMust(t *testing.T) {
	_, a := open(t)
	id := propose(t, a)
	if _, err := a.Confirm(t.Context(), by(agent, id)); !errors.Is(err, consign.ErrNotPermitted) || codeOf(err) != consign.CodeApprovalSelfConfirmed {
		t.Errorf("confirmed by its proposer: %v", err)
	}
	if got, err := a.Find(t.Context(), id); err != nil || got.Status != approval.Open {
		t.Errorf("after that it is %s, %v", got.Status, err)
	}
	anybody := propose(t, a, func(p *approval.Proposal) { p.Admission.Operation.Approval = consign.AnyConfirmer })
	if _, err := a.Confirm(t.Context(), by(agent, anybody)); err != nil {
		t.Errorf("confirmed by its proposer where anybody may: %v", err)
	}
}

func TestApprovalOfAnotherTenantIsNotFound(t *testing.T) {
	_, a := open(t)
	d := by(bea, propose(t, a))
	d.Tenant.ID = "4"
	_, elsewhere := a.Confirm(t.Context(), d)
	d.Approval = consign.NewRef().ID
	_, unknown := a.Confirm(t.Context(), d)
	if !errors.Is(elsewhere, consign.ErrNotFound) || elsewhere.Error() != unknown.Error() {
		t.Errorf("of another tenant: %v; unknown: %v; want one and the same", elsewhere, unknown)
	}
}

func TestApprovalExpiresByTheDatabasesClock(t *testing.T) {
	store, a := open(t)
	open, confirmed := propose(t, a), propose(t, a, func(p *approval.Proposal) { p.TTL = 48 * time.Hour })
	store.Advance(approval.DefaultTTL - time.Microsecond)
	if _, err := a.Confirm(t.Context(), by(bea, confirmed)); err != nil {
		t.Fatal(err)
	}
	if got, err := a.Find(t.Context(), open); err != nil || got.Status != approval.Open {
		t.Errorf("before its time: %s, %v", got.Status, err)
	}
	store.Advance(time.Microsecond)
	for _, decide := range []func(context.Context, approval.Decision) (approval.Approval, error){a.Confirm, a.Dismiss} {
		if _, err := decide(t.Context(), by(bea, open)); !errors.Is(err, consign.ErrConflict) || codeOf(err) != consign.CodeApprovalExpired {
			t.Errorf("decided when its time is over: %v", err)
		}
	}
	store.Advance(24 * time.Hour)
	for _, id := range []consign.ID{open, confirmed} {
		if got, err := a.Find(t.Context(), id); err != nil || got.Status != approval.Expired {
			t.Errorf("after its time: %s, %v", got.Status, err)
		}
	}
}

func TestProposalReportsEveryFault(t *testing.T) {
	_, a := open(t)
	_, err := a.ProposeNow(t.Context(), approval.Proposal{
		Admission: consign.Admission{
			Operation: consign.Operation{Approval: 7}, Actor: consign.Entity{Type: "a:b", ID: "1"}, Approval: consign.NewRef().ID,
			Input: map[string]any{"a": strings.Repeat("x", 16<<10)},
		},
		Proposer: consign.Entity{Type: "p:q", ID: "1"}, Reason: strings.Repeat("x", 1025), TTL: 91 * 24 * time.Hour,
	})
	for _, want := range []string{
		"operation.name 0 bytes", "operation.approval is neither", "actor.type contains a colon", "tenant.type 0 bytes", "input ",
		"approval is set", "proposer is no entity", "reason 1025 bytes, limit 1024", "ttl 2184h0m0s, limit 1s to 2160h0m0s",
	} {
		if !errors.Is(err, consign.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %q in it", err, want)
		}
	}
	for _, p := range []approval.Proposal{
		{Admission: asked, Proposer: agent, Reason: "a\x00b"}, {Admission: asked, Proposer: agent, Reason: "a\xff"},
		{Admission: asked}, {Admission: asked, Proposer: agent, TTL: -1}, {Admission: asked, Proposer: agent, TTL: time.Millisecond},
		{Admission: asked, Proposer: consign.Entity{Type: "agent", ID: strings.Repeat("x", 129)}},
	} {
		if _, err := a.ProposeNow(t.Context(), p); !errors.Is(err, consign.ErrInvalid) {
			t.Errorf("%+v: %v", p.Reason, err)
		}
	}
	list, _, err := a.Open(t.Context(), approval.Query{})
	if err != nil || len(list) != 0 {
		t.Errorf("%d were written, %v", len(list), err)
	}
	_, err = a.Confirm(t.Context(), approval.Decision{Reason: strings.Repeat("x", 1025)})
	for _, want := range []string{"approval is the zero ID", "tenant is no entity", "by is no entity", "reason 1025 bytes"} {
		if !errors.Is(err, consign.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %q in it", err, want)
		}
	}
}

func TestOpenIsReadPageByPage(t *testing.T) {
	store, a := open(t)
	var want []consign.ID
	for i := range 7 { // those proposed later expire sooner
		ttl := time.Duration(24-i) * time.Hour
		want = append([]consign.ID{propose(t, a, func(p *approval.Proposal) { p.TTL = ttl })}, want...)
	}
	elsewhere := propose(t, a, func(p *approval.Proposal) { p.Admission.Tenant.ID = "4" })
	q := approval.Query{Tenant: acme, Limit: 3}
	var got []consign.ID
	for pages := 1; ; pages++ {
		list, next, err := a.Open(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list {
			got = append(got, o.ID)
		}
		if next == "" {
			if pages != 3 {
				t.Errorf("%d pages, want 3", pages)
			}
			break
		}
		q.After = next
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}
	list, next, err := a.Open(t.Context(), approval.Query{})
	if err != nil || len(list) != 8 || next != "" {
		t.Errorf("of all tenants: %d, %q, %v", len(list), next, err)
	}
	if _, err := a.Dismiss(t.Context(), approval.Decision{Approval: elsewhere, Tenant: consign.Entity{Type: "tenant", ID: "4"}, By: bea}); err != nil {
		t.Error(err)
	}
	store.Advance(20 * time.Hour)
	if list, _, err = a.Open(t.Context(), approval.Query{}); err != nil || len(list) != 4 {
		t.Errorf("of seven, three have expired and one more was dismissed: %d, %v", len(list), err)
	}
	for _, bad := range []approval.Query{
		{Limit: -1}, {Limit: 1001}, {After: "x"}, {After: "1"}, {After: "1.x"}, {After: "9223372036854775807." + approval.Cursor(elsewhere.String())},
		{Tenant: consign.Entity{Type: "t"}},
	} {
		if _, _, err := a.Open(t.Context(), bad); !errors.Is(err, consign.ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// unsure is a store whose commits lose their answer.
type unsure struct {
	*memory.Store
	arrives *bool // the commit happened all the same
}

type unsureBound struct {
	driver.Bound[*memory.Tx]
	arrives *bool
}

type unsureTx struct {
	driver.Tx
	arrives *bool
}

func (s unsure) Driver(k driver.Key) driver.Bound[*memory.Tx] {
	return unsureBound{s.Store.Driver(k), s.arrives}
}

func (b unsureBound) Begin(ctx context.Context) (*memory.Tx, driver.Tx, error) {
	tx, dtx, err := b.Bound.Begin(ctx)
	return tx, unsureTx{dtx, b.arrives}, err
}

func (tx unsureTx) Commit(ctx context.Context) error {
	end := tx.Tx.Rollback
	if *tx.arrives {
		end = tx.Tx.Commit
	}
	return errors.Join(driver.ErrUnconfirmed, end(ctx))
}

func TestLostCommitAnswerIsLookedUp(t *testing.T) {
	store, arrives := memory.New(), true
	a, err := approval.New(unsure{store, &arrives})
	if err != nil {
		t.Fatal(err)
	}
	ask := approval.Proposal{Admission: asked, Proposer: agent}
	id, err := a.ProposeNow(t.Context(), ask)
	if err != nil {
		t.Errorf("a proposal that arrived: %v", err)
	}
	arrives = false
	if lost, err := a.ProposeNow(t.Context(), ask); !errors.Is(err, consign.ErrUnconfirmed) || lost.IsZero() {
		t.Errorf("a proposal that did not arrive: %s, %v; want an ID and ErrUnconfirmed", lost, err)
	}
	if _, err := a.Confirm(t.Context(), by(bea, id)); !errors.Is(err, consign.ErrUnconfirmed) {
		t.Errorf("a confirmation that did not arrive: %v", err)
	}
	arrives = true
	if got, err := a.Confirm(t.Context(), by(bea, id)); err != nil || got.Status != approval.Confirmed {
		t.Errorf("a confirmation that arrived: %+v, %v", got, err)
	}
}

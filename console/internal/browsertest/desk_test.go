package browsertest

import (
	"context"
	"database/sql"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/approval"
	"github.com/consign-go/consign/console"
	"github.com/consign-go/consign/internal/scene"
	"github.com/consign-go/consign/migrate"
	"github.com/consign-go/consign/operator"
	"github.com/consign-go/consign/sqlite"
)

// desk is a console on a database of its own.
type desk struct {
	*testing.T
	*scene.Scene
	ctx      context.Context
	console  *console.Console
	operator *operator.Operator
	approval func(p approval.Proposal) consign.ID
	exec     func(query string, args ...any)
	base     string
	linking  *sync.Mutex // a link replaces those before it
}

var roles = map[string]console.Role{"vera": console.Viewer, "otto": console.Operator, "olga": console.Operator, "anna": console.Admin}

const password = "correct horse battery"

var hash = sync.OnceValue(func() string {
	h, err := console.HashPassword(password)
	if err != nil {
		panic(err)
	}
	return h
})

func people() (users []console.User) {
	for name, role := range roles {
		users = append(users, console.User{Identity: console.Identity{Name: name, Role: role}, Password: hash()})
	}
	return users
}

// open is a console below a path.
func open(t *testing.T, o console.Options) *desk {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "desk.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	store, err := sqlite.New(db, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrate.Up(ctx, store); err != nil {
		t.Fatal(err)
	}
	d := &desk{T: t, ctx: ctx, linking: &sync.Mutex{}}
	d.exec = func(query string, args ...any) {
		t.Helper()
		if _, err := db.ExecContext(ctx, query, args...); err != nil {
			t.Fatal(err)
		}
	}
	d.Scene = scene.New(ctx, t, store, func(ref consign.Ref, at time.Time) error {
		_, err := db.ExecContext(ctx, "UPDATE consign_delivery SET lease_until = ?, review_at = ? WHERE ref = ?", at.UnixMicro(), at.UnixMicro(), ref.ID[:])
		return err
	})
	o.Users, o.Refresh, o.Logger = people(), time.Millisecond, slog.New(slog.NewTextHandler(io.Discard, nil))
	if d.console, err = console.New(store, &o); err != nil {
		t.Fatal(err)
	}
	if d.operator, err = operator.New(store); err != nil {
		t.Fatal(err)
	}
	approvals, err := approval.New(store)
	if err != nil {
		t.Fatal(err)
	}
	d.approval = func(p approval.Proposal) consign.ID {
		t.Helper()
		id, err := approvals.ProposeNow(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	mux := http.NewServeMux()
	mux.Handle("/ops/consign/", http.StripPrefix("/ops/consign", d.console))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	d.base = server.URL + "/ops/consign"
	return d
}

// audited lists actions of the audit, the oldest first.
func (d *desk) audited() (all []string) {
	d.Helper()
	rows, err := d.operator.Audit(d.ctx, operator.AuditFilter{})
	if err != nil {
		d.Fatal(err)
	}
	for _, r := range rows {
		all = append([]string{r.By + " " + r.Action}, all...)
	}
	return all
}

// proposal is one that a person is asked about.
func proposal(text string) approval.Proposal {
	return approval.Proposal{
		Admission: consign.Admission{
			Operation: consign.Operation{Name: "refund", Approval: consign.AnyConfirmer}, Actor: consign.Entity{Type: "staff", ID: "7"},
			Tenant: consign.Entity{Type: "tenant", ID: "3"}, Target: consign.Entity{Type: "order", ID: "41"}, Input: map[string]any{"note": text},
		},
		Proposer: consign.Entity{Type: "agent", ID: "triage"}, Reason: text, TTL: time.Hour,
	}
}

// furnish puts something of everything in, and returns one intent to look at.
func (d *desk) furnish(channel, kind string) []consign.Ref {
	d.Helper()
	d.ServeMessage(channel, scene.Once)
	d.ServeWork(kind, scene.Twice)
	for range 3 {
		d.Message(channel, scene.Once)
		d.Delivered(d.Work(kind, scene.Twice))
	}
	refs := []consign.Ref{
		d.Late(d.Unknown(d.Message(channel, scene.Once))), d.Unknown(d.Work(kind, scene.Once)), d.Rejected(d.Message(channel, scene.Once)),
		d.Stranded("loop"), d.Rejected(d.Work(kind, scene.Twice)),
	}
	by := operator.By{Who: "olga", Why: d.Text}
	if _, err := d.operator.Resolve(d.ctx, by, refs[4], operator.Finding{Outcome: operator.FoundNotDelivered, Evidence: d.Text}); err != nil {
		d.Fatal(err)
	}
	if _, err := d.operator.Redeliver(d.ctx, by, refs[4]); err != nil {
		d.Fatal(err)
	}
	if err := d.operator.Pause(d.ctx, by, consign.ProfileMessage, channel); err != nil {
		d.Fatal(err)
	}
	return refs
}

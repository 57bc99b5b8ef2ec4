package consign_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/consign-go/consign"
)

// desk is the authority of the tests' support desk, with everything that can go
// wrong with one.
type desk struct {
	mu sync.Mutex // of what it notes

	revoked, denied, gone    bool   // the definite noes
	undeliverable            bool   // may run, but not deliver
	pair                     string // the only operation and kind that may be delivered; empty: all
	otherTenant, otherTarget bool   // answers for another one
	unreadable               bool   // may not read receipts
	crashes                  bool   // panics
	trouble                  error  // undecided
	stranger                 bool   // answers for somebody else
	empty                    bool   // answers nothing, without an error
	half                     bool   // leaves the tenant out of its answer
	noVersion                bool
	writes                   error // what came of writing through each view; set by the desk
	tryWrites                bool
	ends                     bool // ends the transaction that it reads in
	asked                    []string
	views                    []consign.View // that it was given
}

// deskOn is a desk on one kind of store.
type deskOn[TX any] struct {
	*desk
	scan func(ctx context.Context, tx TX, query string, dst any) error
	exec func(ctx context.Context, tx TX, query string) error
	end  func(ctx context.Context, tx TX) error
}

var (
	ann   = consign.Entity{Type: "staff", ID: "7"}
	acme  = consign.Entity{Type: "tenant", ID: "3"}
	t41   = consign.Entity{Type: "ticket", ID: "41"}
	admit = consign.Admission{Operation: consign.Operation{Name: "triage"}, Actor: ann, Tenant: acme, Target: t41, Subject: "session-9"}
)

func (d *desk) note(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, what)
}

func (d *desk) saw(v consign.View) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.views = append(d.views, v)
}

func (d *desk) definite() (consign.Target, error) {
	switch {
	case d.trouble != nil:
		return consign.Target{}, d.trouble
	case d.gone:
		return consign.Target{}, consign.ErrUnavailable
	}
	return consign.Target{}, nil
}

func (d *deskOn[TX]) read(ctx context.Context, v consign.View, query string) (string, error) {
	var n int
	err := consign.Read(ctx, v, func(tx TX) error {
		if d.ends {
			defer d.end(ctx, tx)
		}
		return d.scan(ctx, tx, query, &n)
	})
	if err == nil && d.tryWrites {
		werr := consign.Read(ctx, v, func(tx TX) error { return d.exec(ctx, tx, `UPDATE {t}ticket SET status = 'hijacked'`) })
		if werr == nil {
			d.writes = errors.New("a write through a view succeeded")
		}
	}
	return fmt.Sprint(n), err
}

func (d *deskOn[TX]) Principal(ctx context.Context, v consign.View, actor, tenant consign.Entity) (consign.Principal, error) {
	d.note("principal")
	if d.otherTenant {
		tenant.ID += "0"
	}
	d.saw(v)
	switch {
	case d.crashes:
		panic("the authority is broken")
	case d.trouble != nil:
		return consign.Principal{}, d.trouble
	case d.revoked:
		return consign.Principal{}, fmt.Errorf("staff is gone: %w", consign.ErrRevoked)
	case d.empty:
		return consign.Principal{}, nil
	case d.stranger:
		actor.ID = "8"
	case d.half:
		tenant = consign.Entity{}
	}
	version, err := d.read(ctx, v, `SELECT security_version FROM {t}staff WHERE id = 7`)
	return consign.Principal{Actor: actor, Tenant: tenant, SecurityVersion: version, Value: d}, err
}

func (d *deskOn[TX]) Target(ctx context.Context, v consign.View, p consign.Principal, e consign.Entity) (consign.Target, error) {
	d.note("target")
	if t, err := d.definite(); err != nil {
		return t, err
	}
	if p.Value != d {
		return consign.Target{}, errors.New("the principal's own value was not handed on")
	}
	version, err := d.read(ctx, v, `SELECT lock_version FROM {t}ticket WHERE id = `+e.ID)
	if d.otherTarget {
		e.Type += "s"
	}
	if d.noVersion {
		version = ""
	}
	return consign.Target{Entity: e, Version: version}, err
}

func (d *deskOn[TX]) MayRun(_ context.Context, _ consign.View, _ consign.Principal, operation string, t consign.Target) (bool, error) {
	d.note("may run " + operation + " on " + t.Entity.String())
	return !d.denied, nil
}

func (d *deskOn[TX]) MayRead(_ context.Context, _ consign.View, _ consign.Principal, operation string, target consign.Entity) (bool, error) {
	d.note("may read " + operation + " on " + target.String())
	return !d.unreadable, nil
}

func (d *deskOn[TX]) MayDeliver(_ context.Context, _ consign.View, _ consign.Principal, operation, kind string, t consign.Target) (bool, error) {
	d.note("may deliver " + kind + " of " + operation + " on " + t.Entity.String())
	return !d.undeliverable && (d.pair == "" || d.pair == operation+" "+kind), nil
}

// noticeInput is the input of the tests' kind of work.
type noticeInput struct {
	Ticket string `json:"ticket"`
	Note   string `json:"note,omitempty"`
}

var triaged = consign.Work[noticeInput]{Kind: "tickets.triaged"}

package consigntest

import (
	"context"
	"sync"

	"github.com/consign-go/consign"
)

// Authority is an authority that permits everything until it is told otherwise,
// also from inside a handler: between the two askings. It is safe for concurrent
// use.
type Authority struct {
	mu              sync.Mutex
	security        string
	version         string
	revoked, gone   bool
	denied          map[string]bool
	principal, item any
	trouble         error
}

// NewAuthority returns an authority that knows every actor, at security version
// "1", and every target, at version "1".
func NewAuthority() *Authority {
	return &Authority{security: "1", version: "1", denied: map[string]bool{}}
}

func (a *Authority) set(fn func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	fn()
}

// Revoke takes every actor's authority away.
func (a *Authority) Revoke() { a.set(func() { a.revoked = true }) }

// Secure sets the actors' security version.
func (a *Authority) Secure(version string) { a.set(func() { a.security = version }) }

// Edit sets the targets' version.
func (a *Authority) Edit(version string) { a.set(func() { a.version = version }) }

// Remove makes every target unavailable.
func (a *Authority) Remove() { a.set(func() { a.gone = true }) }

// Deny refuses to let work of this kind be delivered.
func (a *Authority) Deny(kind string) { a.set(func() { a.denied[kind] = true }) }

// Fail has every question answered with err, until it is nil.
func (a *Authority) Fail(err error) { a.set(func() { a.trouble = err }) }

// Give sets the host's own values that principals and targets carry.
func (a *Authority) Give(principal, target any) {
	a.set(func() { a.principal, a.item = principal, target })
}

// Principal answers for every actor.
func (a *Authority) Principal(_ context.Context, _ consign.View, actor, tenant consign.Entity) (consign.Principal, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.trouble != nil:
		return consign.Principal{}, a.trouble
	case a.revoked:
		return consign.Principal{}, consign.ErrRevoked
	}
	return consign.Principal{Actor: actor, Tenant: tenant, SecurityVersion: a.security, Value: a.principal}, nil
}

// Target answers for every target.
func (a *Authority) Target(_ context.Context, _ consign.View, _ consign.Principal, target consign.Entity) (consign.Target, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.trouble != nil:
		return consign.Target{}, a.trouble
	case a.gone:
		return consign.Target{}, consign.ErrUnavailable
	}
	return consign.Target{Entity: target, Version: a.version, Value: a.item}, nil
}

// MayRun permits every operation.
func (a *Authority) MayRun(context.Context, consign.View, consign.Principal, string, consign.Target) (bool, error) {
	return a.may("")
}

// MayRead permits reading every receipt.
func (a *Authority) MayRead(context.Context, consign.View, consign.Principal, string, consign.Entity) (bool, error) {
	return a.may("")
}

// MayDeliver permits every kind that was not denied.
func (a *Authority) MayDeliver(_ context.Context, _ consign.View, _ consign.Principal, _, kind string, _ consign.Target) (bool, error) {
	return a.may(kind)
}

func (a *Authority) may(kind string) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.trouble == nil && !a.denied[kind], a.trouble
}

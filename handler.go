package consign

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/consign-go/consign/internal/dispatch"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Handler is a kind of work together with the function that delivers it; made by
// [Work.Handler], listed in [Options.Handlers].
type Handler struct {
	kind     *kind
	upgrades []string // older versions, sorted
	prepare  func(i *driver.Intent) (call, error)
	faults   faults
}

// call is a handler with its input.
type call func(ctx context.Context, d *Delivery) error

// Handler makes the handler of this kind out of the function that delivers it.
//
// fn gets the delivery, with the principal and the target as the authority has
// just found them, and the input. It builds the request and calls
// [Delivery.Effect] exactly once; it changes nothing and calls nobody else. What it
// returns decides about a delivery that has not called its effect: [Cancel], that
// the work is not wanted any more; nil, that the effect was forgotten, which a
// person must look at; any other error and a panic, that nothing is decided, so
// that it is tried again later without counting an attempt. After a success an
// error only sets POST_EFFECT_CALLBACK_FAILED.
//
// The error's text is kept with the delivery (1,024 bytes at most), so it must not
// hold content.
func (w Work[T]) Handler(fn func(ctx context.Context, d *Delivery, in T) error) Handler {
	k := w.compiled()
	h := Handler{kind: k, upgrades: slices.Sorted(maps.Keys(w.Upgrade)), faults: slices.Clone(k.faults)}
	if fn == nil {
		h.faults.add("work.handler", "is nil")
	}
	for i, old := range h.upgrades {
		field := "work.upgrade[" + strconv.Itoa(i) + "]"
		h.faults.text(field, old, 1, 128)
		if old == k.version {
			h.faults.add(field, "is the version of the contract itself")
		}
		if w.Upgrade[old] == nil {
			h.faults.add(field, "is nil")
		}
	}
	upgrade := maps.Clone(w.Upgrade) // the caller's may change
	h.prepare = func(i *driver.Intent) (call, error) {
		in, err := read(k, upgrade, i)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, d *Delivery) error { return fn(ctx, d, in) }, nil
	}
	return h
}

// read decodes the input of an intent.
func read[T any](k *kind, upgrade map[string]func([]byte) (T, error), i *driver.Intent) (in T, err error) {
	if i.Fingerprint == k.fingerprint {
		if err := json.Unmarshal(i.Payload, &in); err != nil {
			return in, &dispatch.Stop{Code: lifecycle.InputUnreadable, Err: unreadable(err)}
		}
		return in, nil
	}
	in, err = upgrade[i.Version](slices.Clone(i.Payload))
	switch {
	case decoding(err):
		err = unreadable(err)
	case err == nil:
		var fs faults
		k.check(&fs, "input", &in)
		err = fs.err("upgrade")
	}
	if err != nil {
		return in, &dispatch.Stop{Code: lifecycle.InputUnreadable, Err: err}
	}
	return in, nil
}

// fits reports whether the contract, or an upgrade to it, is the intent's. Routes
// carry a part of the fingerprint; here the whole of it counts.
func (h *Handler) fits(i *driver.Intent) error {
	if i.Fingerprint == h.kind.fingerprint || slices.Contains(h.upgrades, i.Version) {
		return nil
	}
	return &dispatch.Stop{Code: lifecycle.HandlerChanged, Err: errors.New("the contract is not the one that the work was enqueued under")}
}

// checkHandlers reports what is wrong with the handlers.
func (o *Options) checkHandlers(fs *faults) {
	seen := map[string]bool{}
	for i := range o.Handlers {
		h := &o.Handlers[i]
		field := "handlers[" + strconv.Itoa(i) + "]"
		if h.kind == nil {
			fs.add(field, "was not made by Work.Handler")
			continue
		}
		for _, f := range h.faults {
			fs.add(field+strings.TrimPrefix(f.Field, "work"), f.Rule)
		}
		if seen[h.kind.name] {
			fs.add(field+".kind", "is served twice")
		}
		seen[h.kind.name] = true
	}
}

// served is the handler as the engine sees it.
func (o *Outbox[TX]) served(h *Handler) *dispatch.Served {
	return &dispatch.Served{
		Profile: lifecycle.Work, Kind: h.kind.name, Version: h.kind.version, Fingerprint: h.kind.fingerprint,
		Upgrades: h.upgrades, Contract: h.kind.contract, Schedule: h.kind.backoff.schedule(),
		Deliver: func(ctx context.Context, t *dispatch.Task) error { return o.deliver(ctx, t, h) },
	}
}

// deliver drives one piece of work through its handler: the authority is asked,
// the input is read, and the handler called.
func (o *Outbox[TX]) deliver(ctx context.Context, t *dispatch.Task, h *Handler) error {
	i := &t.Intent
	if err := h.fits(i); err != nil {
		return err
	}
	b := &boundary{handler: h, task: t, authority: o.authority, look: o.view}
	p, target, err := b.ask(ctx)
	if err != nil {
		return err
	}
	fn, err := h.prepare(i)
	if err != nil {
		return err
	}
	d := &Delivery{
		Ref: Ref{ID(i.Ref)}, Kind: i.Kind, Run: ID(i.Run), Principal: p, Target: target, Deadline: t.Deadline(),
		view: o.view(), boundary: b,
	}
	b.prepared = target.Version
	defer d.view.end()
	return fn(ctx, d)
}

// Cancel is what a handler returns before its effect where the work is no longer
// wanted: the delivery is cancelled with CANCELLED_BY_HANDLER, or goes to review if
// an earlier attempt may have happened. The reason is kept with the delivery
// (1,024 bytes at most) and must not hold content. It counts along a chain of
// single wraps (%w), and means nothing inside an effect.
func Cancel(reason string) error {
	return &dispatch.Stop{Code: lifecycle.CancelledByHandler, Err: errors.New(reason)}
}

// refusal is what the effect returns to the handler for a delivery that may not
// go on.
func refusal(ref Ref, err error) error {
	e := &Error{Op: "effect", Ref: ref, Err: err}
	stop, ok := err.(*dispatch.Stop)
	if !ok {
		return e
	}
	e.Code, e.Err = stop.Code, ErrStopped
	if stop.Code == lifecycle.Fenced {
		e.Err = ErrFenced
	} else if stop.Err != nil {
		e.Err = wrapped{ErrStopped, stop.Err.Error()}
	}
	if invalid, ok := stop.Err.(*Error); ok {
		e.Faults = invalid.Faults
	}
	return e
}

// Package scene puts intents of every standing into a database, for tests of what
// people look at: delivered, rejected, unknown, stranded, with late evidence, and so
// on. It reports events as programs do, through the core and the store.
package scene

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"testing"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/canon"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Scene is one database.
type Scene struct {
	t      testing.TB
	ctx    context.Context
	desk   driver.Desk
	insert func(rows []driver.New) error
	expire func(ref consign.Ref, at time.Time) error

	// What is stored with what is put in from now on.
	Text    string // in payloads, addresses, and whatever else takes any text
	Error   string // of attempts
	Subject string
	Program string
}

// New returns the scene in store.
// expire ends the lease of a started message at a time, as the end of time does.
func New[TX any](ctx context.Context, t testing.TB, store consign.Store[TX], expire func(ref consign.Ref, at time.Time) error) *Scene {
	bound := store.Driver(driver.Key{})
	s := &Scene{t: t, ctx: ctx, expire: expire, desk: bound.(driver.Desk), Text: "hello", Error: "connection refused", Program: "worker"}
	s.insert = func(rows []driver.New) error {
		_, tx, err := bound.Begin(ctx)
		if err != nil {
			return err
		}
		if err := tx.Insert(ctx, rows); err != nil {
			tx.Rollback(ctx)
			return err
		}
		return tx.Commit(ctx)
	}
	return s
}

// The contracts.
var (
	// Once is not idempotent.
	Once = lifecycle.Contract{Retry: lifecycle.Schedule, MaxAttempts: 3, Lease: time.Minute, Timeout: time.Second, MaxAge: time.Hour}
	// Twice is.
	Twice = lifecycle.Contract{Retry: lifecycle.Schedule, Idempotent: true, MaxAttempts: 3, Lease: time.Minute, Timeout: time.Second}
	// Looped is for messages whose process owns the retries.
	Looped = lifecycle.Contract{Retry: lifecycle.Process, MaxAttempts: 3, Lease: time.Minute, Timeout: time.Second}
)

func (s *Scene) ok(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// Message is a message that is pending.
func (s *Scene) Message(channel string, c lifecycle.Contract) consign.Ref {
	s.t.Helper()
	return s.put(s.message(channel, c))
}

// Work is work that is pending.
func (s *Scene) Work(kind string, c lifecycle.Contract) consign.Ref {
	s.t.Helper()
	n := s.message(kind, c)
	n.Profile, n.Address = lifecycle.Work, ""
	n.Version, n.Fingerprint = "1", sha256.Sum256([]byte(kind))
	n.Run, n.WorkKey = driver.NewID(), "notice"
	n.Operation, n.Actor, n.Tenant, n.SecurityVersion = "triage", "staff:"+s.Text, "tenant:3", "5"
	n.Target, n.TargetVersion = "ticket:41", "2"
	return s.put(n)
}

func (s *Scene) message(channel string, c lifecycle.Contract) driver.New {
	n := driver.New{Contract: c}
	n.Ref = driver.NewID()
	n.Key, n.Profile, n.Kind, n.Address, n.Subject = n.Ref, lifecycle.Message, channel, s.Text, s.Subject
	payload, err := canon.Object(map[string]any{"text": s.Text}, canon.Limits{Bytes: 16 << 10, Depth: 2})
	s.ok(err)
	n.Payload, n.Digest = payload, sha256.Sum256(payload)
	return n
}

func (s *Scene) put(n driver.New) consign.Ref {
	s.t.Helper()
	s.ok(s.insert([]driver.New{n}))
	return consign.Ref{ID: consign.ID(n.Ref)}
}

func (s *Scene) record(ref consign.Ref) driver.Record {
	s.t.Helper()
	found, err := s.desk.Load(s.ctx, []driver.ID{driver.ID(ref.ID)})
	if err != nil || len(found) != 1 {
		s.t.Fatalf("%d records, %v", len(found), err)
	}
	return found[0]
}

// Start brings an intent in flight.
func (s *Scene) Start(ref consign.Ref) consign.Ref {
	s.t.Helper()
	var owner lifecycle.Token
	rand.Read(owner[:])
	r := s.record(ref)
	got, err := s.desk.Claim(s.ctx, driver.ClaimRequest{
		Owner: owner, Program: s.Program, Policy: lifecycle.DefaultPolicy, Refs: []driver.ID{r.Intent.Ref},
		Routes: []driver.RouteLimit{{Route: r.Intent.Route(), Limit: 1, Contract: r.State.Contract}},
	})
	if err != nil || len(got) != 1 {
		s.t.Fatalf("claimed %d, %v", len(got), err)
	}
	return s.happen(ref, lifecycle.EvStart)
}

// happen lets the owner of an intent report an event, which must hold.
func (s *Scene) happen(ref consign.Ref, kind lifecycle.EventKind) consign.Ref {
	s.t.Helper()
	r := s.record(ref)
	e := lifecycle.Event{Kind: kind, Error: s.Error, Owner: r.State.Owner, Generation: r.State.Generation, Attempt: r.State.AttemptNo()}
	if kind == lifecycle.EvStart {
		e.Digest = r.Intent.Digest
	}
	t := lifecycle.DefaultPolicy.Apply(r.State, e)
	t.Ref = ref.ID
	held, err := s.desk.Apply(s.ctx, []lifecycle.Transition{t})
	if err != nil || t.Answer != lifecycle.Apply || !held[0] {
		s.t.Fatalf("%s in %s: %s, %v, %v", e.Kind, r.State.Status, t.Answer, held, err)
	}
	return ref
}

// Delivered ends what was pending with a success.
func (s *Scene) Delivered(ref consign.Ref) consign.Ref {
	s.t.Helper()
	return s.happen(s.Start(ref), lifecycle.EvSucceeded)
}

// Rejected ends what was pending with a definite no.
func (s *Scene) Rejected(ref consign.Ref) consign.Ref {
	s.t.Helper()
	return s.happen(s.Start(ref), lifecycle.EvRejected)
}

// Unknown ends what was pending so that nobody knows whether it was delivered.
func (s *Scene) Unknown(ref consign.Ref) consign.Ref {
	s.t.Helper()
	return s.happen(s.Start(ref), lifecycle.EvUnknown)
}

// Late keeps a success that came too late.
func (s *Scene) Late(ref consign.Ref) consign.Ref { return s.Proven(ref, "") }

// Proven keeps a success that came too late with what its receiver signed.
func (s *Scene) Proven(ref consign.Ref, proof string) consign.Ref {
	s.t.Helper()
	s.ok(s.desk.Append(s.ctx, []driver.Logged{{Ref: driver.ID(ref.ID), Attempt: lifecycle.Attempt{
		Generation: s.record(ref).State.Generation, Number: 1, Outcome: lifecycle.Accepted, Code: lifecycle.Fenced, HTTPStatus: 201,
		Late: true, Error: s.Error, Proof: proof,
	}}}))
	return ref
}

// Stranded is a message that was started and whose process is gone: its lease was over
// a minute ago.
func (s *Scene) Stranded(channel string) consign.Ref {
	s.t.Helper()
	ref := s.Start(s.Message(channel, Looped))
	now, err := s.desk.Now(s.ctx)
	s.ok(err)
	s.ok(s.expire(ref, now.Add(-time.Minute)))
	return ref
}

// ServeMessage registers a live program for a channel.
func (s *Scene) ServeMessage(channel string, c lifecycle.Contract) {
	s.t.Helper()
	s.serve(driver.Serves{Profile: lifecycle.Message, Kind: channel, Contract: c})
}

// ServeWork registers a live program for a kind of work.
func (s *Scene) ServeWork(kind string, c lifecycle.Contract) {
	s.t.Helper()
	s.serve(driver.Serves{Profile: lifecycle.Work, Kind: kind, Version: "1", Fingerprint: sha256.Sum256([]byte(kind)), Contract: c})
}

func (s *Scene) serve(one driver.Serves) {
	s.t.Helper()
	s.ok(s.desk.Register(s.ctx, driver.Program{ID: driver.NewID(), Name: s.Program, Serves: []driver.Serves{one}}))
}

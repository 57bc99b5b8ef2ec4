package postgres

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// webhook is a channel that the schedule drives.
var webhook = lifecycle.Contract{
	Retry: lifecycle.Schedule, Idempotent: true, MaxAttempts: 8,
	Lease: time.Minute, Timeout: 10 * time.Second, MaxAge: 24 * time.Hour,
}

// loop is a channel that the claiming process drives.
var loop = lifecycle.Contract{
	Retry: lifecycle.Process, MaxAttempts: 3, Lease: 2 * time.Minute, Timeout: 10 * time.Second,
}

// message is a message of a channel, with a payload of about size bytes.
func message(channel string, c lifecycle.Contract, size int) driver.New {
	ref := driver.NewID()
	payload := []byte(fmt.Sprintf(`{"note":"for \"%s\"","pad":"%s"}`, ref, strings.Repeat("x", max(0, size-66))))
	return driver.New{
		Intent: driver.Intent{
			Ref: ref, Key: ref, Profile: lifecycle.Message, Kind: channel, Address: "https://receiver.test/hook",
			Payload: payload, Digest: sha256.Sum256(payload),
		},
		Contract: c,
	}
}

// work is work of a run.
func work(kind string, run driver.ID, key string) driver.New {
	ref := driver.NewID()
	payload := []byte(fmt.Sprintf(`{"ticket":"%s"}`, key))
	return driver.New{
		Intent: driver.Intent{
			Ref: ref, Key: ref, Profile: lifecycle.Work, Kind: kind, Version: "1", Fingerprint: sha256.Sum256([]byte(kind)),
			Run: run, WorkKey: key, Operation: "tickets.close", Actor: "user:1", Tenant: "org:1", SecurityVersion: "7",
			Target: "ticket:1", TargetVersion: "3", Payload: payload, Digest: sha256.Sum256(payload),
		},
		Contract: webhook,
	}
}

// token is a fresh owner.
func token() lifecycle.Token { return lifecycle.Token(driver.NewID()) }

// request asks for up to n of a route.
func request(route string, n int) driver.ClaimRequest {
	return driver.ClaimRequest{
		Owner: token(), Program: "test", Policy: lifecycle.DefaultPolicy,
		Routes: []driver.RouteLimit{{Route: route, Limit: n, Contract: webhook}},
	}
}

// starts are the transitions that start what was claimed.
func starts(claimed []driver.Claimed) []lifecycle.Transition {
	return transitionsOf(claimed, func(c *driver.Claimed) lifecycle.Event {
		return lifecycle.Event{
			Kind: lifecycle.EvStart, Owner: c.State.Owner, Generation: c.State.Generation, Digest: c.Intent.Digest,
		}
	})
}

// transitionsOf asks lifecycle about each.
func transitionsOf(claimed []driver.Claimed, event func(*driver.Claimed) lifecycle.Event) []lifecycle.Transition {
	ts := make([]lifecycle.Transition, len(claimed))
	for i := range claimed {
		ts[i] = lifecycle.DefaultPolicy.Apply(claimed[i].State, event(&claimed[i]))
		ts[i].Ref = claimed[i].Intent.Ref
	}
	return ts
}

// after is the state that a transition which held leads to.
func after(c driver.Claimed, t *lifecycle.Transition) driver.Claimed {
	s := &c.State
	s.Status, s.Generation, s.Owner, s.InFlight = t.Set.Status, t.Set.Generation, t.Set.Owner, t.Set.InFlight
	s.Attempts, s.Crashes, s.Uncertain = t.Set.Attempts, t.Set.Crashes, t.Set.Uncertain
	s.Digest, s.Code = t.Set.Digest, t.Set.Code
	s.Revision++
	return c
}

// successes are the transitions that settle what was started.
func successes(started []driver.Claimed) []lifecycle.Transition {
	return transitionsOf(started, func(c *driver.Claimed) lifecycle.Event {
		return lifecycle.Event{
			Kind: lifecycle.EvSucceeded, Owner: c.State.Owner, Generation: c.State.Generation, Attempt: c.State.AttemptNo(),
		}
	})
}

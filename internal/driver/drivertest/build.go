package drivertest

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// The contracts and the policy of the tests. Distances between boundaries are a
// minute and more, so that the time a test takes decides nothing.
var (
	policy = lifecycle.Policy{SettleMargin: 100 * time.Second, CrashBudget: 5}

	scheduled = lifecycle.Contract{
		Retry: lifecycle.Schedule, Idempotent: true, MaxAttempts: 3,
		Lease: lease, Timeout: time.Minute, MaxAge: 24 * time.Hour,
	}
	looped = lifecycle.Contract{
		Retry: lifecycle.Process, MaxAttempts: 3, Lease: lease, Timeout: time.Minute, MaxAge: 24 * time.Hour,
	}
)

const lease = 10 * time.Minute

// digest is what starts bind in tests.
var digest = lifecycle.Digest(sha256.Sum256([]byte("request")))

// message returns a message to insert, due now, under a fresh ref.
func (b *bench[TX]) message(channel string, change ...func(*driver.New)) driver.New {
	b.made++
	n := driver.New{Contract: scheduled, Given: true}
	n.Ref = driver.NewID()
	n.Key = n.Ref
	n.Profile, n.Kind, n.Address = lifecycle.Message, channel, "desk@example.org"
	n.Payload = fmt.Appendf(nil, `{"n":%d}`, b.made)
	for _, c := range change {
		c(&n)
	}
	n.Digest = sha256.Sum256(n.Payload)
	return n
}

// inRun puts work into a run under a key.
func inRun(run driver.ID, key string) func(*driver.New) {
	return func(n *driver.New) {
		n.Run, n.WorkKey, n.Ref = run, key, driver.WorkRef(run, key)
		n.Key = n.Ref
	}
}

// work returns a work intent to insert, in a run of its own unless change says
// otherwise.
func (b *bench[TX]) work(kind string, change ...func(*driver.New)) driver.New {
	b.made++
	n := driver.New{Contract: scheduled}
	n.Ref = driver.NewID()
	n.Key = n.Ref
	n.Profile, n.Kind, n.Version, n.Fingerprint = lifecycle.Work, kind, "1", sha256.Sum256([]byte(kind))
	n.Run, n.WorkKey = driver.NewID(), "notice"
	n.Operation, n.Actor, n.Tenant, n.SecurityVersion = "triage", "staff:7", "tenant:1", "v3"
	n.Target, n.TargetVersion = "ticket:9", "4"
	n.Payload = fmt.Appendf(nil, `{"n":%d}`, b.made)
	for _, c := range change {
		c(&n)
	}
	n.Digest = sha256.Sum256(n.Payload)
	return n
}

// Changes for message and work.

func under(c lifecycle.Contract) func(*driver.New) { return func(n *driver.New) { n.Contract = c } }
func task(name string, index int) func(*driver.New) {
	return func(n *driver.New) { n.Task, n.Index = name, index }
}
func about(subject string) func(*driver.New) { return func(n *driver.New) { n.Subject = subject } }
func notBefore(t time.Time) func(*driver.New) {
	return func(n *driver.New) { n.NotBefore = t }
}

// with returns c changed.
func with(c lifecycle.Contract, change func(*lifecycle.Contract)) lifecycle.Contract {
	change(&c)
	return c
}

// once is scheduled for receivers that do not deduplicate.
func once(c *lifecycle.Contract) { c.Idempotent = false }

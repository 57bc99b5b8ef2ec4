package consign

import (
	"context"
	"strconv"
	"time"

	"github.com/consign-go/consign/internal/lifecycle"
)

// RetryOwner says who tries a message again.
type RetryOwner int

const (
	// InProcess: a short bounded loop in the process that claimed the message.
	// Nothing else ever starts it again, so a crash while delivering loses the
	// message rather than sending it twice, and shows it for review.
	InProcess RetryOwner = iota
	// OnSchedule: what may be tried again goes back to the database with a due
	// time, for receivers that may be down for hours.
	OnSchedule
)

// Channel is the contract of one way to send messages. What it says is copied
// onto a message when it is created; a changed channel affects new messages only.
type Channel struct {
	// Deliver sends one message: the bytes of a.Request, under the key a.Key. It
	// returns nil only for a known success, and [NotSent], [Refused] or [Rejected]
	// for what it knows of a failure; any other error, a panic and an ended context
	// mean that the outcome is unknown. An HTTP error response is no success. The
	// error's text is kept with the message (1,024 bytes at most), so it must not
	// hold what the receiver said or whom it was about.
	// Default: none; the program enqueues for this channel and does not deliver.
	Deliver func(ctx context.Context, m Message, a Attempt) error

	// CheckProof checks a proof that a person got from the receiver itself, and returns
	// what of p.Text the receiver has signed about this key and this digest: 1 to 2,048
	// bytes of printable ASCII. The error says why nothing in it is that, without
	// content. [Outbox.CheckProof] calls it, for people who hand proofs in; what is
	// signed in an answer is Deliver's to check, and [Attempt.KeepProof] keeps it.
	// Default: none; no proof can be handed in.
	CheckProof func(ctx context.Context, p Proof) (string, error)

	// Name is what messages call the channel: 1 to 128 bytes of printable ASCII.
	Name string

	// Idempotent says that the receiver drops a repeated delivery key, so that an
	// unknown outcome may be tried again. Default: false.
	Idempotent bool

	// Retry says who tries again. Default: InProcess.
	Retry RetryOwner

	// MaxAttempts is how often a message may be started, 1 to 1,000.
	// Default: 3 in process, 8 on schedule.
	MaxAttempts int

	// Waits are the times between the attempts; the last one repeats. What a
	// receiver asks for is waited for where it is longer, up to 24 h, and a fifth of
	// each wait is added at random. Default: in process 1 s, 5 s; on schedule 5 s,
	// 5 min, 30 min, 2 h, 5 h, 10 h, which makes 8 attempts over about 28 hours.
	Waits []time.Duration

	// Timeout is what one attempt may take. Default: 10 s in process, 30 s on
	// schedule.
	Timeout time.Duration

	// Lease is how long a claim holds: longer than the timeout plus the settle
	// margin of 10 s, in process longer than the whole loop plus that margin. What
	// it has beyond that is the time from the claim to the start: a message that is
	// started later than that is given back unsent, so leave seconds of it, more
	// where the database is slow under load. At most 24 h. Default: 60 s.
	Lease time.Duration

	// Rejections is how many rejections of one message are tried again like a
	// refusal, for receivers that answer like that during their own deploys: 0 to
	// 1,000, on schedule only. In process every rejection is tried again while
	// attempts are left. Default: 0, a rejection is final.
	Rejections int

	// MaxAge is how long after it became due a message may still be started, at
	// most 10 years. Default: no limit.
	MaxAge time.Duration

	// PayloadLimit is the largest payload in canonical bytes, 1 to 1 MiB.
	// Default: 16 KiB.
	PayloadLimit int
}

const (
	defaultPayloadLimit = 16 << 10
	maxPayloadLimit     = 1 << 20
	maxAttemptsLimit    = 1000
	maxLease            = 24 * time.Hour
	maxMaxAge           = 10 * 365 * 24 * time.Hour
)

// filled returns the channel with its defaults.
func (c Channel) filled() Channel {
	process := c.Retry == InProcess
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&c.Lease, 60*time.Second)
	if c.Waits == nil && process {
		c.Waits = []time.Duration{time.Second, 5 * time.Second}
	} else if c.Waits == nil {
		c.Waits = []time.Duration{5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour}
	}
	if process {
		set(&c.Timeout, 10*time.Second)
		if c.MaxAttempts == 0 {
			c.MaxAttempts = 3
		}
	} else {
		set(&c.Timeout, 30*time.Second)
		if c.MaxAttempts == 0 {
			c.MaxAttempts = 8
		}
	}
	if c.PayloadLimit == 0 {
		c.PayloadLimit = defaultPayloadLimit
	}
	return c
}

// loop is what all attempts of an in-process channel take together, at most.
func (c *Channel) loop() time.Duration {
	total := time.Duration(c.MaxAttempts) * c.Timeout
	for i := range c.MaxAttempts - 1 {
		if len(c.Waits) > 0 {
			total += c.Waits[min(i, len(c.Waits)-1)]
		}
	}
	return total
}

// check reports what is wrong with a filled channel.
func (c *Channel) check(fs *faults, field string) {
	fs.text(field+".name", c.Name, 1, 128)
	if c.Retry != InProcess && c.Retry != OnSchedule {
		fs.add(field+".retry", "is neither InProcess nor OnSchedule")
	}
	for i, w := range c.Waits {
		if w < 0 || w > 7*24*time.Hour {
			fs.add(field+".waits["+strconv.Itoa(i)+"]", w.String()+", limit 0s to 168h0m0s")
		}
	}
	if c.Rejections < 0 || c.Rejections > maxAttemptsLimit {
		fs.add(field+".rejections", strconv.Itoa(c.Rejections)+", limit 0 to "+strconv.Itoa(maxAttemptsLimit))
	} else if c.Rejections > 0 && c.Retry == InProcess {
		fs.add(field+".rejections", "are for channels with Retry: OnSchedule; in process every rejection is tried again")
	}
	if c.PayloadLimit < 1 || c.PayloadLimit > maxPayloadLimit {
		fs.add(field+".payload_limit", strconv.Itoa(c.PayloadLimit)+" bytes, limit 1 to "+strconv.Itoa(maxPayloadLimit))
	}
	whole := c.Timeout
	if c.Retry == InProcess && c.MaxAttempts > 0 && c.MaxAttempts <= maxAttemptsLimit {
		whole = c.loop()
	}
	checkTimes(fs, field, c.contract(), whole)
}

func (c *Channel) contract() lifecycle.Contract {
	k := lifecycle.Contract{
		Retry: lifecycle.Process, Idempotent: c.Idempotent, MaxAttempts: c.MaxAttempts,
		Lease: c.Lease, Timeout: c.Timeout, MaxAge: c.MaxAge,
	}
	if c.Retry == OnSchedule {
		k.Retry = lifecycle.Schedule
	}
	return k
}

// checkTimes holds what kinds and channels have in common: whole is what the
// effect, or the whole loop, may take under one lease.
func checkTimes(fs *faults, field string, k lifecycle.Contract, whole time.Duration) {
	if k.MaxAttempts < 1 || k.MaxAttempts > maxAttemptsLimit {
		fs.add(field+".max_attempts", strconv.Itoa(k.MaxAttempts)+", limit 1 to "+strconv.Itoa(maxAttemptsLimit))
	}
	if k.Timeout < time.Millisecond {
		fs.add(field+".timeout", k.Timeout.String()+", at least 1ms")
	}
	if k.MaxAge < 0 || k.MaxAge > maxMaxAge {
		fs.add(field+".max_age", k.MaxAge.String()+", limit 0s to "+maxMaxAge.String())
	}
	margin := lifecycle.DefaultPolicy.SettleMargin
	switch {
	case k.Lease > maxLease:
		fs.add(field+".lease", k.Lease.String()+", limit "+maxLease.String())
	case k.Lease <= whole+margin:
		fs.add(field+".lease", k.Lease.String()+" is not longer than the effect's "+whole.String()+
			" plus the settle margin of "+margin.String())
	}
}

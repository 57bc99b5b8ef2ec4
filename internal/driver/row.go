package driver

import (
	"encoding/hex"
	"time"

	"github.com/consign-go/consign/internal/lifecycle"
)

// Link says how an intent follows an earlier one. The numbers are stored.
type Link uint8

const (
	// First is an intent that follows none.
	First Link = 0
	// Redelivery carries the first one's delivery key over.
	Redelivery Link = 1
	// Reissue has a fresh delivery key.
	Reissue Link = 2
)

// Intent is the immutable row.
type Intent struct {
	Ref     ID
	Profile lifecycle.Profile
	Kind    string // the kind of work, or the channel of a message
	Key     ID     // the delivery key: the ref, or what a redelivery carries over
	Payload []byte // canonical JSON
	Digest  lifecycle.Digest

	// Of work.
	Version         string
	Fingerprint     [32]byte
	Run             ID
	WorkKey         string // unique within the run
	Operation       string
	Actor           string
	Tenant          string
	SecurityVersion string
	Target          string
	TargetVersion   string // as committed by the run

	// Of messages.
	Address string
	Task    string // empty: none
	Index   int

	Subject     string // whose data it is; what an erasure names; empty: nobody's
	Predecessor ID
	Link        Link
	Trace       string    // W3C trace context, captured at enqueue
	CreatedAt   time.Time // set by the database
}

// CarriedKey is the delivery key where a redelivery carries it over, and zero where
// it is the ref: then it is not stored.
func (i *Intent) CarriedKey() ID {
	if i.Key == i.Ref {
		return ID{}
	}
	return i.Key
}

// Route is the name under which programs claim the intent. Programs of different
// versions of a kind never meet on one route.
func (i *Intent) Route() string {
	if i.Profile == lifecycle.Work {
		return WorkRoute(i.Kind, i.Fingerprint)
	}
	return MessageRoute(i.Kind)
}

// WorkRoute is the route of a kind under one contract fingerprint. A collision of
// the shortened fingerprint does no harm: the whole one is compared after the
// claim.
func WorkRoute(kind string, fingerprint [32]byte) string {
	return "w:" + kind + ":" + hex.EncodeToString(fingerprint[:8])
}

// MessageRoute is the route of a channel.
func MessageRoute(channel string) string { return "m:" + channel }

// New is an intent to insert, with how its delivery begins.
type New struct {
	Intent

	// Contract is copied onto the delivery; its Retry is Unclaimed where the
	// program does not know the channel.
	Contract lifecycle.Contract

	// NotBefore is the earliest due time; zero or past means now.
	NotBefore time.Time

	// Given says that the caller chose the ref, so that it may exist already.
	Given bool

	// Bound and Uncertain are carried over by a redelivery.
	Bound     lifecycle.Digest
	Uncertain bool
}

// Gated reports whether the delivery waits for lower indexes of its task.
func (n *New) Gated() bool { return n.Task != "" && n.Link == First }

// Claimed is what a claim hands out: everything a delivery needs, in one round
// trip.
type Claimed struct {
	Intent Intent
	State  lifecycle.State
	DueAt  time.Time // with the ref its [Position] in the route, to go on behind
}

// Record is everything stored about one intent, for people and for look-ups.
// After an erasure Intent holds its ref and nothing else.
type Record struct {
	Intent     Intent
	State      lifecycle.State
	DueAt      time.Time // zero: none
	LeaseUntil time.Time
	Deadline   time.Time
	StartedAt  time.Time // of the newest attempt
	UpdatedAt  time.Time
	ReviewAt   time.Time
	ErasedAt   time.Time
	Program    string // name of the program that made the newest claim
	LastError  string
}

// Logged is a row of the attempt log.
type Logged struct {
	Ref ID
	lifecycle.Attempt
	StartedAt time.Time // zero where the attempt never started
	At        time.Time // when it was written
}

// Run is one admitted operation execution.
type Run struct {
	ID              ID
	Operation       string
	Actor           string
	Tenant          string
	SecurityVersion string
	Target          string
	TargetVersion   string
	Subject         string
	InputDigest     lifecycle.Digest
	Approval        ID     // consumed by this run
	Receipt         []byte // canonical JSON; nil: none
	Work            []ID   // refs of its work, in the order of the receipt
	CreatedAt       time.Time
	SealedAt        time.Time
}

// WorkBytes is the list of work as it is stored; nil where there is none.
func (r *Run) WorkBytes() any {
	if len(r.Work) == 0 {
		return nil
	}
	var b []byte
	for _, ref := range r.Work {
		b = append(b, ref[:]...)
	}
	return b
}

// ReadWork sets the list of work from what is stored.
func (r *Run) ReadWork(b []byte) {
	r.Work = nil
	for ; len(b) >= len(ID{}); b = b[len(ID{}):] {
		r.Work = append(r.Work, ID(b[:len(ID{})]))
	}
}

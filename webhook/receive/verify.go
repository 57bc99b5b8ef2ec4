package receive

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/webhook/internal/signature"
)

// Key is a key that checks signatures or signs proofs; webhook.ParseKey reads one.
type Key = signature.Key

// Why a request is not taken. None of them shows anything of it.
var (
	// ErrHeaders: a header of Standard Webhooks is missing, repeated or malformed.
	ErrHeaders = errors.New("the webhook headers are missing or malformed")
	// ErrSignature: no signature is by one of the keys.
	ErrSignature = errors.New("no signature matches")
	// ErrAge: the signature is good and its time too far from this clock's.
	ErrAge = errors.New("the timestamp is outside the tolerance")
	// ErrInProgress: another request with the same key is being executed.
	ErrInProgress = errors.New("the delivery key is in progress")
	// ErrDigest: the key was executed with another body.
	ErrDigest = errors.New("the delivery key was used with another body")
)

// Options say what a receiver accepts.
type Options struct {
	// Keys check signatures: shared secrets or public keys, 1 to 4 of them. While a
	// secret is being rotated, give both.
	Keys []Key

	// Proofs sign that a key was executed, 0 to 4 of them: the shared secret, or a
	// private key of the receiver's. Default: no proofs.
	Proofs []Key

	// Tolerance is how far the request's timestamp may be from this program's clock,
	// either way, 1 s to 24 h. Default: 5 min.
	Tolerance time.Duration

	// Source names the sender, within which delivery keys are unique: up to 128 bytes
	// of printable ASCII. Default: "".
	Source string

	// MaxBody is the largest body in bytes, 1 to 16 MiB. Default: 1 MiB.
	MaxBody int64

	// RetryAfter is how long a sender is asked to wait after a failure, 1 s to 24 h.
	// Default: 5 s.
	RetryAfter time.Duration

	// OnError is told of what the handler's answer does not show: errors of the
	// function and the database, and requests that were not taken. key is empty until
	// the signature was checked. Default: none.
	OnError func(key string, err error)

	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

// Delivery is a request that was checked.
type Delivery struct {
	Key       string    // the delivery key: what is executed at most once
	Digest    [32]byte  // SHA-256 of Body
	Timestamp time.Time // when this attempt was signed
	Body      []byte    // as it came
}

// Verifier checks requests and signs proofs, without a database.
type Verifier struct{ opt Options }

// String names the kind of thing, and shows none of its options: they hold secrets.
func (v *Verifier) String() string { return "webhook verifier" }

// GoString is String: %#v shows no secret either.
func (v *Verifier) GoString() string { return v.String() }

// NewVerifier checks the options, without IO. The error is a *consign.Error with
// every fault, and wraps consign.ErrInvalid.
func NewVerifier(o Options) (*Verifier, error) {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&o.Tolerance, 5*time.Minute)
	set(&o.RetryAfter, 5*time.Second)
	if o.MaxBody == 0 {
		o.MaxBody = 1 << 20
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if fs := o.check(); len(fs) > 0 {
		return nil, &consign.Error{Op: "receive", Faults: fs, Err: consign.ErrInvalid}
	}
	return &Verifier{opt: o}, nil
}

const maxKeys = 4

func (o *Options) check() (fs []consign.Fault) {
	add := func(field, rule string) { fs = append(fs, consign.Fault{Field: field, Rule: rule}) }
	if len(o.Keys) < 1 || len(o.Keys) > maxKeys {
		add("keys", strconv.Itoa(len(o.Keys))+", limit 1 to "+strconv.Itoa(maxKeys))
	}
	if len(o.Proofs) > maxKeys {
		add("proofs", strconv.Itoa(len(o.Proofs))+", limit 0 to "+strconv.Itoa(maxKeys))
	}
	for i, k := range o.Keys {
		if k.IsZero() {
			add("keys["+strconv.Itoa(i)+"]", "is no key")
		}
	}
	for i, k := range o.Proofs {
		if !k.CanSign() {
			add("proofs["+strconv.Itoa(i)+"]", "cannot sign")
		}
	}
	for field, d := range map[string]time.Duration{"tolerance": o.Tolerance, "retry_after": o.RetryAfter} {
		if d < time.Second || d > 24*time.Hour {
			add(field, d.String()+", limit 1s to 24h0m0s")
		}
	}
	if o.MaxBody < 1 || o.MaxBody > 16<<20 {
		add("max_body", strconv.FormatInt(o.MaxBody, 10)+" bytes, limit 1 to "+strconv.Itoa(16<<20))
	}
	if !printable(o.Source, 0, 128) {
		add("source", "is not up to 128 bytes of printable ASCII")
	}
	return fs
}

// Verify checks signature and age of a request (Standard Webhooks 1.0.0). Give it
// the body exactly as it came. Errors: ErrHeaders, ErrSignature, ErrAge.
func (v *Verifier) Verify(h http.Header, body []byte) (Delivery, error) {
	key, stamp, signatures := one(h, signature.HeaderID), one(h, signature.HeaderTimestamp), one(h, signature.HeaderSignature)
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || seconds < 0 || strconv.FormatInt(seconds, 10) != stamp || !sound(key) || signatures == "" {
		return Delivery{}, ErrHeaders
	}
	if !signature.CheckRequest(v.opt.Keys, signatures, key, seconds, body) {
		return Delivery{}, ErrSignature
	}
	then := time.Unix(seconds, 0)
	if away := v.opt.Now().Sub(then); away > v.opt.Tolerance || away < -v.opt.Tolerance {
		return Delivery{}, ErrAge
	}
	return Delivery{Key: key, Digest: sha256.Sum256(body), Timestamp: then, Body: body}, nil
}

// Proof returns the value of the header Consign-Proof, by which a sender knows that
// this body was executed under this key, whatever becomes of the rest of the answer.
// Sign it only after the commit. It is empty without keys for it.
func (v *Verifier) Proof(d Delivery) string { return signature.Proof(v.opt.Proofs, d.Key, d.Digest) }

// one returns a header that is there once.
func one(h http.Header, name string) string {
	if values := h.Values(name); len(values) == 1 {
		return values[0]
	}
	return ""
}

// sound reports whether a key is what a delivery key may be. A dot would let two
// different requests be signed alike.
func sound(key string) bool {
	for i := range len(key) {
		if key[i] == '.' {
			return false
		}
	}
	return printable(key, 1, 128)
}

func printable(s string, min, max int) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return len(s) >= min && len(s) <= max
}

// fault names the operation in an error of the database.
func fault(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("receive: %s: %w", op, err)
}

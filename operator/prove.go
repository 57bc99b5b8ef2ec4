package operator

import (
	"context"
	"fmt"
	"strings"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/internal/driver"
	"github.com/consign-go/consign/internal/lifecycle"
)

// Checker checks what receivers have signed; a *consign.Outbox is one, with the
// channels that it was made with.
type Checker interface {
	// CheckProof returns what of p.Text the receiver has signed about this delivery key
	// and this request, or why nothing in it is that.
	CheckProof(ctx context.Context, channel string, p consign.Proof) (string, error)
}

// maxProof is how large a proof may be that is handed in, in bytes.
const maxProof = 2048

// Signed is a proof that a person got from the receiver, by its own endpoint or log.
type Signed struct {
	// Proof is the text as the receiver hands it out: 1 to 2,048 bytes of printable
	// ASCII, in one line or several. What of it the receiver signed is kept as the evidence of the finding, and
	// goes with the intent when that is erased.
	Proof string

	// Supersedes is the current finding, where there is one that is wrong. Default:
	// there is none.
	Supersedes consign.ID
}

// AcceptProof checks a proof that was handed in and records as a finding what it says:
// that the receiver has executed the request. It is checked against the delivery key
// and the digest of the request that was bound, with the keys that c has for the
// channel; what does not hold changes nothing. It works for messages in review and for
// those that failed, even where the record says that they were certainly not
// delivered: the receiver knows better.
//
// It is [Operator.Resolve] otherwise. Errors are those, and ErrRefused also where c is
// nil, has no keys for the channel or does not find the proof true, for a message
// that was never started, and for work: what is bound of work is the whole request, of
// which receivers sign the body alone.
func (o *Operator) AcceptProof(ctx context.Context, by By, ref consign.Ref, s Signed, c Checker) (Resolution, error) {
	const op = "accept proof"
	s.Proof = strings.Join(strings.Fields(s.Proof), " ") // a log or a terminal may have wrapped it
	var fs faults
	fs.by(by)
	fs.ref(ref)
	switch n := len(s.Proof); {
	case n == 0 || n > maxProof:
		fs.add("proof", fmt.Sprintf("%d bytes, limit 1 to %d", n, maxProof))
	case !printable(s.Proof):
		fs.add("proof", "is not printable ASCII")
	}
	if err := fs.err(op); err != nil {
		return Resolution{}, err
	}
	return o.resolve(ctx, op, by, ref, func(v *view) (driver.Resolution, error) {
		if err := v.mayProve(op); err != nil {
			return driver.Resolution{}, err
		}
		if c == nil {
			return driver.Resolution{}, refused(op, "this program knows no keys to check proofs with")
		}
		i, digest := &v.record.Intent, v.record.State.Digest
		signed, err := c.CheckProof(ctx, i.Kind, consign.Proof{To: i.Address, Key: i.Key.String(), Digest: digest, Text: s.Proof})
		switch {
		case err != nil:
			return driver.Resolution{}, refused(op, "the proof is not accepted: "+err.Error())
		case signed == "" || len(signed) > maxProof || !printable(signed):
			return driver.Resolution{}, refused(op, "the proof is not accepted: the channel does not say what of it is signed")
		}
		return driver.Resolution{
			Finding: driver.FoundDelivered, Source: driver.FromProof, Supersedes: driver.ID(s.Supersedes),
			Evidence: fmt.Sprintf("for delivery key %s and request %x the receiver signed %s", i.Key, digest, signed),
		}, nil
	})
}

// printable reports whether s is ASCII without control characters.
func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// mayProve says why no proof can be checked.
func (v *view) mayProve(op string) error {
	s := &v.record.State
	switch {
	case s.Erased:
		return &consign.Error{Op: op, Err: consign.ErrNotFound}
	case s.Status == lifecycle.Succeeded:
		return refused(op, "a success was observed: there is nothing to prove")
	case v.record.Intent.Profile != lifecycle.Message:
		return refused(op, "what is bound of work is the whole request, and a receiver signs the body alone: "+
			"a proof of work is checked only as it comes; record it as your finding")
	case !s.Stranded() && s.Status != lifecycle.Failed:
		return refused(op, "it is still open: wait for its end, or cancel it")
	case s.Digest == lifecycle.Digest{}:
		return refused(op, "no request is bound: it was never started, so there is nothing that a receiver can have signed")
	}
	return nil
}

package consign

import (
	"context"
	"errors"
)

// Proof is what a receiver has signed to say that it executed a request under a
// delivery key, with what it must be about.
type Proof struct {
	To     string   // the recipient of the message
	Key    string   // the delivery key
	Digest [32]byte // SHA-256 of the request that was bound at the first start
	Text   string   // what was signed, as the receiver hands it out
}

// CheckProof has a channel check a proof that somebody got from the receiver, and
// returns what of p.Text the receiver has signed about this delivery key and this
// request. An error means that nothing in it is known to be that, and says why in words
// that can be shown: the channel is not declared here, has no [Channel.CheckProof], or
// found no such proof.
func (o *Outbox[TX]) CheckProof(ctx context.Context, channel string, p Proof) (signed string, err error) {
	c, known := o.channels[channel]
	switch {
	case !known:
		return "", errors.New("this program does not know the channel, and so no keys to check a proof with")
	case c.CheckProof == nil:
		return "", errors.New("this program knows no way to check proofs of the channel")
	}
	defer func() {
		if recover() != nil { // what it panics with may hold content
			signed, err = "", errors.New("the channel's check of proofs has panicked")
		}
	}()
	return c.CheckProof(ctx, p)
}

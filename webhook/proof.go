package webhook

import (
	"context"
	"errors"

	"github.com/consign-go/consign"
	"github.com/consign-go/consign/webhook/internal/signature"
)

// Why a proof that was handed in is not taken. None of them shows anything of it.
var (
	errNoProofs = errors.New("no keys are known by which this receiver signs proofs")
	errUnproven = errors.New("nothing in it is signed by one of the receiver's keys for this delivery key and this request; " +
		"a proof for another key or another body proves nothing about this one")
)

// checkProof checks a proof with the credentials of now, as the next attempt would.
func (e *Endpoint) checkProof(ctx context.Context, p consign.Proof) (string, error) {
	creds, err := e.credentials(ctx, p.To)
	if err != nil {
		return "", err
	}
	if len(creds.Proofs) == 0 {
		return "", errNoProofs
	}
	signed := signature.FindProof(creds.Proofs, p.Text, p.Key, p.Digest)
	if signed == "" {
		return "", errUnproven
	}
	return signed, nil
}

package signature

import (
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
)

// Names of the headers of a signed request and of a proof.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
	HeaderProof     = "Consign-Proof"
)

// maxSignatures is how many signatures of one header are looked at: more keys than
// that are not rotated at once, and each costs a computation.
const maxSignatures = 16

// Request returns the signature header of a request: one signature for each key
// that can sign, over id, timestamp (whole seconds since 1970) and body.
func Request(keys []Key, id string, timestamp int64, body []byte) string {
	return signAll(keys, []byte(id), strconv.AppendInt(nil, timestamp, 10), body)
}

// CheckRequest reports whether one of the signatures in the header is by one of
// the keys. Unknown versions are passed over.
func CheckRequest(keys []Key, header, id string, timestamp int64, body []byte) bool {
	return findAny(keys, header, []byte(id), strconv.AppendInt(nil, timestamp, 10), body) != ""
}

// proofLabel begins what a proof signs. No delivery key looks like it and a
// timestamp is a number, so that a request's signature is never a proof, nor the
// other way round, even where one secret makes both.
const proofLabel = "consign-proof-1"

// Proof returns the header by which a receiver states that it has durably accepted
// the body of this digest under this delivery key.
func Proof(keys []Key, id string, digest [32]byte) string {
	return signAll(keys, []byte(proofLabel), []byte(id), hex.AppendEncode(nil, digest[:]))
}

// CheckProof reports whether the header holds a proof by one of the keys.
func CheckProof(keys []Key, header, id string, digest [32]byte) bool {
	return FindProof(keys, header, id, digest) != ""
}

// FindProof returns the proof in the header that is by one of the keys, without what
// else stands there; empty: there is none.
func FindProof(keys []Key, header, id string, digest [32]byte) string {
	return findAny(keys, header, []byte(proofLabel), []byte(id), hex.AppendEncode(nil, digest[:]))
}

func signAll(keys []Key, parts ...[]byte) string {
	var out []byte
	for _, k := range keys {
		if !k.CanSign() {
			continue
		}
		if len(out) > 0 {
			out = append(out, ' ')
		}
		out = k.sign(out, parts...)
	}
	return string(out)
}

func findAny(keys []Key, header string, parts ...[]byte) string {
	seen := 0
	for one := range strings.FieldsSeq(header) {
		version, text, ok := strings.Cut(one, ",")
		raw, err := base64.StdEncoding.DecodeString(text)
		if !ok || err != nil {
			continue
		}
		if seen++; seen > maxSignatures {
			return ""
		}
		for _, k := range keys {
			if k.checks(version, raw, parts...) {
				return one
			}
		}
	}
	return ""
}

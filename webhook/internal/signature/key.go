// Package signature signs and checks requests as Standard Webhooks 1.0.0 says, and
// the proofs with which a receiver answers. Both ends share it.
package signature

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"hash"
	"strings"
)

// Prefixes of serialized keys, as the specification gives them.
const (
	prefixShared  = "whsec_"
	prefixPrivate = "whsk_"
	prefixPublic  = "whpk_"
)

// Limits of a shared secret in bytes, from the specification.
const (
	minSecret = 24
	maxSecret = 64
)

// Key signs, checks, or does both. The zero Key does neither. Its text never shows
// the secret.
type Key struct {
	shared  []byte             // HMAC-SHA256
	private ed25519.PrivateKey // signs
	public  ed25519.PublicKey  // checks
}

// Parse reads the serialized form of a key: "whsec_" and 24 to 64 bytes in base64,
// a secret that both ends share (HMAC-SHA256); "whsk_" and the 32-byte seed or the
// 64-byte private key (Ed25519); or "whpk_" and the 32-byte public key. The error
// never quotes the text.
func Parse(text string) (Key, error) {
	prefix, rest, _ := strings.Cut(text, "_")
	prefix += "_"
	if prefix != prefixShared && prefix != prefixPrivate && prefix != prefixPublic {
		return Key{}, errors.New("begins with none of whsec_, whsk_ and whpk_")
	}
	raw, err := base64.StdEncoding.DecodeString(rest)
	if err != nil {
		if raw, err = base64.RawStdEncoding.DecodeString(rest); err != nil {
			return Key{}, errors.New("is not base64 after its prefix")
		}
	}
	switch {
	case prefix == prefixShared && len(raw) >= minSecret && len(raw) <= maxSecret:
		return Key{shared: raw}, nil
	case prefix == prefixShared:
		return Key{}, errors.New("has a secret of fewer than 24 or more than 64 bytes")
	case prefix == prefixPrivate && len(raw) == ed25519.SeedSize:
		return fromPrivate(ed25519.NewKeyFromSeed(raw)), nil
	case prefix == prefixPrivate && len(raw) == ed25519.PrivateKeySize:
		k := ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize])
		if !hmac.Equal(k, raw) {
			return Key{}, errors.New("has a public half that is not that of its seed")
		}
		return fromPrivate(k), nil
	case prefix == prefixPrivate:
		return Key{}, errors.New("is neither a seed of 32 bytes nor a private key of 64")
	case len(raw) == ed25519.PublicKeySize:
		return Key{public: raw}, nil
	}
	return Key{}, errors.New("is not a public key of 32 bytes")
}

func fromPrivate(k ed25519.PrivateKey) Key {
	return Key{private: k, public: k.Public().(ed25519.PublicKey)}
}

// CanSign reports whether the key can make signatures.
func (k Key) CanSign() bool { return k.shared != nil || k.private != nil }

// IsZero reports whether the key is none.
func (k Key) IsZero() bool { return k.shared == nil && k.public == nil }

// String names the kind of key, never the key.
func (k Key) String() string {
	switch {
	case k.shared != nil:
		return "HMAC-SHA256 secret"
	case k.private != nil:
		return "Ed25519 private key"
	case k.public != nil:
		return "Ed25519 public key"
	}
	return "no key"
}

// GoString is String: %#v shows no secret either.
func (k Key) GoString() string { return k.String() }

// version is the name of the scheme in a signature.
func (k Key) version() string {
	if k.shared != nil {
		return "v1"
	}
	return "v1a"
}

// sign appends the signature of what the parts are when joined by dots.
func (k Key) sign(dst []byte, parts ...[]byte) []byte {
	var raw []byte
	if k.shared != nil {
		raw = k.mac(parts).Sum(make([]byte, 0, sha256.Size))
	} else {
		raw = ed25519.Sign(k.private, join(parts))
	}
	dst = append(dst, k.version()...)
	dst = append(dst, ',')
	return base64.StdEncoding.AppendEncode(dst, raw)
}

// checks reports whether raw is this key's signature of the parts.
func (k Key) checks(version string, raw []byte, parts ...[]byte) bool {
	switch {
	case k.IsZero() || version != k.version():
		return false
	case k.shared != nil:
		return hmac.Equal(raw, k.mac(parts).Sum(make([]byte, 0, sha256.Size)))
	}
	return len(raw) == ed25519.SignatureSize && ed25519.Verify(k.public, join(parts), raw)
}

func (k Key) mac(parts [][]byte) hash.Hash {
	m := hmac.New(sha256.New, k.shared)
	for i, p := range parts {
		if i > 0 {
			m.Write([]byte{'.'})
		}
		m.Write(p)
	}
	return m
}

func join(parts [][]byte) []byte {
	var all []byte
	for i, p := range parts {
		if i > 0 {
			all = append(all, '.')
		}
		all = append(all, p...)
	}
	return all
}

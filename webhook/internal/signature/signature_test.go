package signature

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

// The example of the Standard Webhooks specification 1.0.0 (secret, id, timestamp,
// body and signature), and the second key pair of RFC 8032 section 7.1. What the
// specification does not print was computed with Node.js's crypto.
const (
	secret  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	private = "whsk_TM0Imyj/ltqdtsNG7BFOD1uKMZ81q6Yk2oz27U+4pvs="
	public  = "whpk_PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw="
	id      = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	at      = 1614265330
	body    = `{"test": 2432232314}`
	v1      = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	v1a     = "v1a,7anDmyOh9LNskt5GJUTacHmbvyUkT0/S1jnxFAp+h2hcVXnQLWhtWA2+wP6vO0AUwEYP23IIZVuneGRhNj7hDQ=="
	proofOf = "0198f000-0000-7000-8000-000000000001"
	proofV1 = "v1,qMpxQ9RuOpuAXS9Ag9VsBUulhXf/w4rCW4W+Yb1Q0Zg="
)

func key(t *testing.T, text string) Key {
	t.Helper()
	k, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestSignaturesAreThoseOfThePublishedVectors(t *testing.T) {
	shared, signer, checker := key(t, secret), key(t, private), key(t, public)
	if got := Request([]Key{shared}, id, at, []byte(body)); got != v1 {
		t.Errorf("HMAC: %s", got)
	}
	if got := Request([]Key{signer}, id, at, []byte(body)); got != v1a {
		t.Errorf("Ed25519: %s", got)
	}
	if got := Request([]Key{signer, checker, shared}, id, at, []byte(body)); got != v1a+" "+v1 {
		t.Errorf("several keys: %s", got)
	}
	for _, k := range []Key{shared, checker, signer} {
		if !CheckRequest([]Key{k}, v1a+" "+v1, id, at, []byte(body)) {
			t.Errorf("%s does not check its signature", k)
		}
	}
	if got := Proof([]Key{shared}, proofOf, sha256.Sum256([]byte("{}"))); got != proofV1 {
		t.Errorf("proof: %s", got)
	}
}

func TestRotationNeedsOneCommonKey(t *testing.T) {
	older, newer := key(t, secret), key(t, "whsec_"+base64.StdEncoding.EncodeToString([]byte(strings.Repeat("n", 24))))
	stranger := key(t, "whsec_"+base64.StdEncoding.EncodeToString([]byte(strings.Repeat("s", 24))))
	both := Request([]Key{newer, older}, id, at, []byte(body))
	for name, c := range map[string]struct {
		header string
		keys   []Key
		want   bool
	}{
		"receiver has the old one":         {both, []Key{older}, true},
		"receiver has the new one":         {both, []Key{newer}, true},
		"receiver has both":                {v1, []Key{newer, older}, true},
		"receiver has another":             {both, []Key{stranger}, false},
		"receiver has none":                {both, nil, false},
		"a zero key checks nothing":        {both, []Key{{}}, false},
		"unknown versions are passed over": {"v9,AAAA v1a, x v1 " + v1, []Key{older}, true},
		"another version's label":          {"v1a" + strings.TrimPrefix(v1, "v1"), []Key{older}, false},
		"nothing":                          {"", []Key{older}, false},
		"in a line of a log":               {strings.Repeat("word ", 16) + v1, []Key{older}, true},
		"beyond the sixteenth":             {strings.Repeat("v1,AAAA ", 16) + v1, []Key{older}, false},
	} {
		if got := CheckRequest(c.keys, c.header, id, at, []byte(body)); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestEveryPartIsSigned(t *testing.T) {
	digest := sha256.Sum256([]byte(body))
	for _, pair := range [][2]Key{{key(t, secret), key(t, secret)}, {key(t, private), key(t, public)}} {
		signers, checkers := pair[:1], pair[1:]
		h, p := Request(signers, id, at, []byte(body)), Proof(signers, id, digest)
		switch {
		case !CheckRequest(checkers, h, id, at, []byte(body)) || !CheckProof(checkers, p, id, digest):
			t.Errorf("%s: its own signature does not check", pair[0])
		case CheckRequest(checkers, h, id+"x", at, []byte(body)), CheckRequest(checkers, h, id, at+1, []byte(body)),
			CheckRequest(checkers, h, id, at, []byte(body+" ")):
			t.Errorf("%s: id, timestamp or body is not bound", pair[0])
		case CheckProof(checkers, p, id+"x", digest), CheckProof(checkers, p, id, sha256.Sum256(nil)):
			t.Errorf("%s: key or digest of a proof is not bound", pair[0])
		case CheckProof(checkers, h, id, digest), CheckRequest(checkers, p, id, at, []byte(body)):
			t.Errorf("%s: a request's signature passes for a proof, or the other way round", pair[0])
		}
	}
}

func TestKeysAreParsedStrictlyAndNeverShown(t *testing.T) {
	enc := func(n int) string { return base64.StdEncoding.EncodeToString(make([]byte, n)) }
	for _, bad := range []string{
		"", "secret", "whsec_", "whsec_" + enc(23), "whsec_" + enc(65), "whsec_!!!!", "whsk_" + enc(31), "whsk_" + enc(64) + "AAAA",
		"whpk_" + enc(33), "WHSEC_" + enc(24), enc(32), "whsk_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 64))),
	} {
		if k, err := Parse(bad); err == nil {
			t.Errorf("%q is taken as %s", bad, k)
		} else if len(bad) > 8 && strings.Contains(err.Error(), bad[6:]) {
			t.Errorf("the error quotes the key: %v", err)
		}
	}
	for _, good := range []string{"whsec_" + enc(24), "whsec_" + enc(64), "whsec_" + strings.TrimRight(enc(25), "="), secret, private, public} {
		k := key(t, good)
		for _, shown := range []string{fmt.Sprint(k), fmt.Sprintf("%+v", k), fmt.Sprintf("%#v", k), fmt.Sprint([]Key{k}), fmt.Sprintf("%v", &k)} {
			if !strings.Contains(shown, "HMAC") && !strings.Contains(shown, "Ed25519") || len(shown) > 40 {
				t.Errorf("shown as %s", shown)
			}
		}
	}
	if key(t, public).CanSign() || (Key{}).CanSign() || !(Key{}).IsZero() || fmt.Sprint(Key{}) != "no key" {
		t.Error("a public key, or none, cannot sign")
	}
	if got := Request([]Key{key(t, public), {}}, id, at, nil); got != "" {
		t.Errorf("signed with nothing: %s", got)
	}
}

package console

import (
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// PBKDF2 with HMAC-SHA-512 (RFC 8018), with as many rounds as OWASP's password
// storage guide asks of it.
const (
	hashScheme  = "pbkdf2-sha512"
	hashRounds  = 210_000
	fewest      = 100_000
	mostRounds  = 10_000_000
	minPassword = 12
	maxPassword = 1024
)

// HashPassword returns what a [User] keeps of a password: 12 to 1,024 bytes of
// UTF-8. The same password gives another hash each time.
func HashPassword(password string) (string, error) {
	if n := len(password); n < minPassword || n > maxPassword {
		return "", fmt.Errorf("console: password %d bytes, limit %d to %d", n, minPassword, maxPassword)
	}
	if !utf8.ValidString(password) {
		return "", errors.New("console: password is not valid UTF-8")
	}
	return hashOf(password, hashRounds)
}

func hashOf(password string, rounds int) (string, error) {
	salt := make([]byte, 16)
	rand.Read(salt)
	key, err := pbkdf2.Key(sha512.New, password, salt, rounds, 32)
	if err != nil {
		return "", err
	}
	b := base64.RawStdEncoding
	return "$" + hashScheme + "$" + strconv.Itoa(rounds) + "$" + b.EncodeToString(salt) + "$" + b.EncodeToString(key), nil
}

// hashed is a hash that was read.
type hashed struct {
	rounds    int
	salt, key []byte
}

// readHash reads what HashPassword wrote.
func readHash(s string) (hashed, error) {
	parts := strings.Split(s, "$")
	if len(parts) != 5 || parts[0] != "" || parts[1] != hashScheme {
		return hashed{}, errors.New("is not what HashPassword returns")
	}
	rounds, err := strconv.Atoi(parts[2])
	if err != nil || rounds < fewest || rounds > mostRounds {
		return hashed{}, fmt.Errorf("has a number of rounds outside of %d to %d", fewest, mostRounds)
	}
	h := hashed{rounds: rounds}
	var wrong error
	h.salt, wrong = base64.RawStdEncoding.DecodeString(parts[3])
	h.key, err = base64.RawStdEncoding.DecodeString(parts[4])
	if wrong != nil || err != nil || len(h.salt) < 8 || len(h.key) < 16 {
		return hashed{}, errors.New("is damaged")
	}
	return h, nil
}

// fits reports whether password is the one that was hashed.
func (h *hashed) fits(password string) bool {
	if len(password) > maxPassword {
		return false
	}
	key, err := pbkdf2.Key(sha512.New, password, h.salt, h.rounds, len(h.key))
	return err == nil && subtle.ConstantTimeCompare(key, h.key) == 1
}

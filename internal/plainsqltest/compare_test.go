package plainsqltest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"strings"
	"testing"

	"github.com/consign-go/consign/internal/canon"
)

var limits = canon.Limits{Bytes: 16 << 10, Depth: 8}

// compare enqueues a payload by SQL and holds it against the Go canonicaliser. Where
// the database may refuse what Go takes, only a form that is stored must be right.
func compare(t *testing.T, b *base, on querier, text string, mayRefuse bool) {
	t.Helper()
	want, wantErr := canon.Object(json.RawMessage(text), limits)
	id := newID()
	if _, err := on.ExecContext(t.Context(), "SAVEPOINT one"); err != nil {
		t.Fatal(err)
	}
	err := b.enqueue(t, on, note(func(r *row) { r.id, r.payload = id, text }))
	switch {
	case err != nil:
		if wantErr == nil && !mayRefuse {
			t.Errorf("refused: %v\n%.300q", err, text)
		}
		if strings.Contains(text, "geheim") && strings.Contains(err.Error(), "geheim") {
			t.Errorf("the error tells content: %v", err)
		}
		if _, err := on.ExecContext(t.Context(), "ROLLBACK TO one"); err != nil {
			t.Fatal(err)
		}
		return
	case wantErr != nil:
		t.Errorf("taken, where Go says %v\n%.300q", wantErr, text)
		return
	}
	var payload string
	var digest []byte
	query := b.names.Replace(`SELECT payload, payload_digest FROM {s}intent WHERE ref = $1`)
	if err := on.QueryRowContext(t.Context(), query, b.ref(id)).Scan(&payload, &digest); err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(want); payload != string(want) || !bytes.Equal(digest, sum[:]) {
		t.Errorf("stored %.300q digest %x\nwant   %.300q digest %x", payload, digest, want, sum)
	}
}

// longNumber reports whether a number of text may be beyond what SQLite spells.
func longNumber(text string) bool {
	digits := 0
	for _, c := range text {
		switch {
		case '0' <= c && c <= '9':
			digits++
		case c == 'e', c == 'E':
			return true
		case c != '.':
			digits = 0
		}
		if digits > 15 {
			return true
		}
	}
	return false
}

package consign

import (
	"database/sql/driver"
	"fmt"

	store "github.com/consign-go/consign/internal/driver"
)

// ID is a UUID (RFC 9562): of a run, an approval or, as a [Ref], of an intent.
// The zero ID names nothing.
type ID [16]byte

// ParseID reads the 36-character form of a UUID, in either case.
func ParseID(s string) (ID, error) {
	id, err := store.ParseID(s)
	if err != nil {
		return ID{}, &Error{Op: "parse", Faults: []Fault{{"id", "is " + err.Error()}}, Err: ErrInvalid}
	}
	return ID(id), nil
}

// String returns the lower-case 36-character form.
func (id ID) String() string { return store.ID(id).String() }

// IsZero reports whether id names nothing.
func (id ID) IsZero() bool { return id == ID{} }

// MarshalText returns the 36-character form.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads the 36-character form.
func (id *ID) UnmarshalText(text []byte) (err error) {
	*id, err = ParseID(string(text))
	return err
}

// Value stores the 36-character form: a PostgreSQL uuid or text column takes it.
func (id ID) Value() (driver.Value, error) { return id.String(), nil }

// Scan reads what [ID.Value] stored, or 16 raw bytes.
func (id *ID) Scan(src any) (err error) {
	switch v := src.(type) {
	case string:
		*id, err = ParseID(v)
		return err
	case []byte:
		if len(v) == len(id) {
			copy(id[:], v)
			return nil
		}
		*id, err = ParseID(string(v))
		return err
	}
	return fmt.Errorf("consign: scan: an ID cannot be read from %T", src)
}

// Ref is the public, opaque name of an intent (a UUIDv7, unless the caller gave
// the message an ID of its own).
type Ref struct{ ID }

// ParseRef reads the 36-character form of a ref, in either case.
func ParseRef(s string) (Ref, error) {
	id, err := ParseID(s)
	return Ref{id}, err
}

// NewRef returns a fresh ref, for a message whose ID must be known before it is
// enqueued.
func NewRef() Ref { return Ref{ID(store.NewID())} }

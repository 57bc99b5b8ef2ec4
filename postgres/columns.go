package postgres

import (
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/consign-go/consign/internal/driver"
)

// Batches travel as one array parameter per column. Each column type can be
// written in two ways: pgx reads it as an array and sends it in binary, which
// costs the server a quarter of the text form for a UUID; where only text will do
// (database/sql, and the pgx modes without prepared statements) it is an array
// literal. The SQL is the same, because it casts every parameter.
//
// Elements are handed to pgx as pointers into the column, which it encodes
// without an allocation for each.
type column interface {
	pgtype.ArrayGetter
	literal() string
}

// array is c as a parameter; an empty column is NULL, and unnest takes a NULL
// array for one that has no rows, at no cost.
func array[T column](c T, n int) any {
	if n == 0 {
		return nil
	}
	return c
}

func dimensions(n int) []pgtype.ArrayDimension {
	return []pgtype.ArrayDimension{{Length: int32(n), LowerBound: 1}}
}

// uuids is a uuid[]; the zero ID is NULL.
type uuids []driver.ID

type uuidElement driver.ID

// UUIDValue is for pgx.
func (u *uuidElement) UUIDValue() (pgtype.UUID, error) {
	return pgtype.UUID{Bytes: *u, Valid: true}, nil
}

func (c uuids) Dimensions() []pgtype.ArrayDimension { return dimensions(len(c)) }
func (c uuids) IndexType() any                      { return (*uuidElement)(nil) }
func (c uuids) Index(i int) any {
	if c[i] == (driver.ID{}) {
		return nil
	}
	return (*uuidElement)(&c[i])
}

func (c uuids) literal() string {
	return literal(len(c), 37*len(c), func(b *strings.Builder, i int) {
		if c[i] == (driver.ID{}) {
			b.WriteString("NULL")
			return
		}
		b.WriteString(c[i].String())
	})
}

// texts is a text[]; the empty text is NULL.
type texts []string

type textElement string

// TextValue is for pgx.
func (t *textElement) TextValue() (pgtype.Text, error) {
	return pgtype.Text{String: string(*t), Valid: true}, nil
}

func (c texts) Dimensions() []pgtype.ArrayDimension { return dimensions(len(c)) }
func (c texts) IndexType() any                      { return (*textElement)(nil) }
func (c texts) Index(i int) any {
	if c[i] == "" {
		return nil
	}
	return (*textElement)(&c[i])
}

func (c texts) literal() string {
	size := 0
	for _, s := range c {
		size += len(s) + len(s)/8 + 3
	}
	return literal(len(c), size, func(b *strings.Builder, i int) {
		if c[i] == "" {
			b.WriteString("NULL")
			return
		}
		quote(b, c[i])
	})
}

// quote writes s as an element of an array literal.
func quote(b *strings.Builder, s string) {
	b.WriteByte('"')
	for {
		at := strings.IndexAny(s, `"\`)
		if at < 0 {
			break
		}
		b.WriteString(s[:at])
		b.WriteByte('\\')
		b.WriteByte(s[at])
		s = s[at+1:]
	}
	b.WriteString(s)
	b.WriteByte('"')
}

// blobs is a bytea[] of texts and digests; nil is NULL.
type blobs [][]byte

type blobElement []byte

// BytesValue is for pgx.
func (v *blobElement) BytesValue() ([]byte, error) { return *v, nil }

func (c blobs) Dimensions() []pgtype.ArrayDimension { return dimensions(len(c)) }
func (c blobs) IndexType() any                      { return (*blobElement)(nil) }
func (c blobs) Index(i int) any {
	if c[i] == nil {
		return nil
	}
	return (*blobElement)(&c[i])
}

func (c blobs) literal() string {
	return literal(len(c), 70*len(c), func(b *strings.Builder, i int) {
		if c[i] == nil {
			b.WriteString("NULL")
			return
		}
		b.WriteString(`"\\x`)
		b.WriteString(hex.EncodeToString(c[i]))
		b.WriteByte('"')
	})
}

// numbers is an int8[], int4[] or int2[].
type numbers []int64

type numberElement int64

// Int64Value is for pgx.
func (n *numberElement) Int64Value() (pgtype.Int8, error) {
	return pgtype.Int8{Int64: int64(*n), Valid: true}, nil
}

func (c numbers) Dimensions() []pgtype.ArrayDimension { return dimensions(len(c)) }
func (c numbers) IndexType() any                      { return (*numberElement)(nil) }
func (c numbers) Index(i int) any                     { return (*numberElement)(&c[i]) }

func (c numbers) literal() string {
	return literal(len(c), 8*len(c), func(b *strings.Builder, i int) {
		b.WriteString(strconv.FormatInt(c[i], 10))
	})
}

// moments is a timestamptz[]; the zero time is NULL.
type moments []time.Time

type momentElement time.Time

// TimestamptzValue is for pgx.
func (m *momentElement) TimestamptzValue() (pgtype.Timestamptz, error) {
	return pgtype.Timestamptz{Time: time.Time(*m), Valid: true}, nil
}

func (c moments) Dimensions() []pgtype.ArrayDimension { return dimensions(len(c)) }
func (c moments) IndexType() any                      { return (*momentElement)(nil) }
func (c moments) Index(i int) any {
	if c[i].IsZero() {
		return nil
	}
	return (*momentElement)(&c[i])
}

func (c moments) literal() string {
	return literal(len(c), 36*len(c), func(b *strings.Builder, i int) {
		if c[i].IsZero() {
			b.WriteString("NULL")
			return
		}
		b.WriteString(`"` + moment(c[i]).(string) + `"`)
	})
}

// literal writes an array literal of n elements.
func literal(n, size int, element func(b *strings.Builder, i int)) string {
	var b strings.Builder
	b.Grow(size + 2)
	b.WriteByte('{')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		element(&b, i)
	}
	b.WriteByte('}')
	return b.String()
}

// Single values travel as text, which every driver passes on as it is.

// moment is t as a parameter, in the whole microseconds that the database keeps;
// the zero time is NULL.
func moment(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Truncate(time.Microsecond).Format("2006-01-02T15:04:05.999999Z")
}

// uuid is id as a parameter; the zero ID is NULL.
func uuid(id driver.ID) any {
	if id == (driver.ID{}) {
		return nil
	}
	return id.String()
}

// text is s as a parameter; the empty text is NULL.
func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// digest is a SHA-256 as a parameter; the zero one is NULL.
func digest(d [32]byte) any {
	if d == ([32]byte{}) {
		return nil
	}
	return d[:]
}

// literals replaces columns by their literals.
func literals(args []any) []any {
	out := make([]any, len(args))
	for i, a := range args {
		if c, ok := a.(column); ok {
			out[i] = c.literal()
			continue
		}
		out[i] = a
	}
	return out
}

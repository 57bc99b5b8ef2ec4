package operator

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"time"

	"github.com/consign-go/consign/internal/driver"
)

// cursor is where a list goes on, as callers carry it around.
type cursor struct {
	Segment int    `json:"s,omitempty"`
	Route   string `json:"r,omitempty"`
	Micros  int64  `json:"t,omitempty"`
	Ref     string `json:"i,omitempty"`
	Front   bool   `json:"f,omitempty"` // at the beginning of the segment
}

func (c cursor) text() string {
	b, err := json.Marshal(c)
	if err != nil {
		return "" // it holds texts and numbers
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func cursorAt(segment int, p driver.Place) cursor {
	if p == (driver.Place{}) {
		return cursor{Segment: segment, Front: true}
	}
	c := cursor{Segment: segment, Route: p.Route, Ref: p.Ref.String()}
	if !p.At.IsZero() {
		c.Micros = p.At.UnixMicro()
	}
	return c
}

// place is where the cursor stands within its segment.
func (c cursor) place() driver.Place {
	if c.Front {
		return driver.Place{}
	}
	ref, _ := driver.ParseID(c.Ref) // checked when it was read
	p := driver.Place{Route: c.Route, Ref: ref}
	if c.Micros != 0 {
		p.At = time.UnixMicro(c.Micros).UTC()
	}
	return p
}

// cursor reads what text wrote; the empty text is the front of everything.
func (fs *faults) cursor(s string, segments int) cursor {
	if s == "" {
		return cursor{Front: true}
	}
	var c cursor
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err == nil && !c.Front {
		_, err = driver.ParseID(c.Ref)
	}
	if err != nil || c.Segment < 0 || c.Segment >= max(segments, 1) {
		fs.add("after", "is not what a list returned as next, for this filter")
		return cursor{Front: true}
	}
	return c
}

// limit fills in the default of a limit.
func (fs *faults) limit(n, usual, most int) int {
	if n < 0 || n > most {
		fs.add("limit", strconv.Itoa(n)+", limit 1 to "+strconv.Itoa(most))
	}
	if n == 0 {
		return usual
	}
	return n
}

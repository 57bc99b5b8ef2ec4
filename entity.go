package consign

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Entity is a typed reference to an actor, a tenant or a target: what kind of
// thing it is, and which. Entities are compared whole and nothing is ever
// instantiated from one. Both parts are at most 128 bytes of UTF-8 without
// control characters, and the type has no colon.
type Entity struct{ Type, ID string }

// String returns "type:id".
func (e Entity) String() string {
	if e == (Entity{}) {
		return ""
	}
	return e.Type + ":" + e.ID
}

// ParseEntity reads "type:id": the type ends at the first colon.
func ParseEntity(s string) (Entity, error) {
	typ, id, ok := strings.Cut(s, ":")
	var fs faults
	if !ok {
		fs.add("entity", `has no colon, want "type:id"`)
	} else {
		fs.entity("entity", Entity{typ, id})
	}
	if err := fs.err("parse"); err != nil {
		return Entity{}, err
	}
	return Entity{typ, id}, nil
}

func (fs *faults) entity(field string, e Entity) {
	fs.name(field+".type", e.Type, 1, 128)
	fs.name(field+".id", e.ID, 1, 128)
	if strings.Contains(e.Type, ":") {
		fs.add(field+".type", "contains a colon")
	}
}

// name checks a short text in any script: min to max bytes of UTF-8 without
// control characters.
func (fs *faults) name(field, s string, min, max int) {
	switch {
	case len(s) < min || len(s) > max:
		fs.add(field, strconv.Itoa(len(s))+" bytes, limit "+strconv.Itoa(min)+" to "+strconv.Itoa(max))
	case !utf8.ValidString(s):
		fs.add(field, "is not valid UTF-8")
	case strings.ContainsFunc(s, unicode.IsControl):
		fs.add(field, "contains a control character")
	}
}

// Package canon turns data into the one byte sequence that is stored, digested and sent.
//
// The form is RFC 8785 (JSON Canonicalization Scheme), so that a program in any language can recompute a digest. It is
// written by walking the Go value or scanning the JSON text here, because encoding/json is too kind to be trusted with a
// digest: it mends invalid UTF-8, lets times and decimals choose their own spelling, and of two fields with one name it
// keeps none. Whatever is ambiguous is refused instead:
//
//   - an object with two equal names, after escapes are resolved, at any depth (RFC 8785 section 3.1, RFC 7493 section 2.3);
//   - text that is not valid UTF-8, lone surrogates, and U+0000 in any spelling (RFC 8785 section 3.2.2.2; U+0000 because
//     PostgreSQL cannot store it);
//   - numbers that are not finite, and integers beyond ±(2^53−1), which other languages round (RFC 7493 section 2.2);
//   - values that marshal themselves (json.Marshaler, encoding.TextMarshaler), byte slices, and maps whose keys are not
//     strings. json.RawMessage and json.Number are accepted: their content is checked like everything else.
//
// Struct fields follow encoding/json, so that what is written here is what json.Unmarshal reads back: name, "-",
// omitempty, omitzero, embedding. Two deliberate differences: fields of one depth that claim one name are refused even
// when encoding/json would prefer the tagged one, and the ",string" option is refused.
//
// The type decides where it can: a struct with a nil *time.Time is refused as one with a time in it would be, so that
// the first test finds it. Check asks that question without a value.
//
// Start with Object for requests and payloads; Digest names its result.
package canon

import (
	"crypto/sha256"
	"fmt"
	"reflect"
)

// Limits bound one canonical form. Both are inclusive and nothing is ever truncated: beyond a limit there is no result.
type Limits struct {
	// Bytes is the largest size of the canonical form. The walk ends as soon as it is exceeded, so a far too large value
	// is never buffered whole. Default: 0, no limit.
	Bytes int

	// Depth is how many objects and arrays may lie inside one another; a root object without containers in it has depth 1.
	// Default: 0, which means MaxDepth. A larger number means MaxDepth too.
	Depth int
}

// MaxDepth is the ceiling for nesting, in levels, whatever Limits say. It ends the walk of a cyclic value and bounds the
// stack that hostile text can use. A chain of pointers has the same ceiling.
const MaxDepth = 1000

// Value returns the canonical form of a Go value: a struct, a map with string keys, a slice, an array, a string, a
// boolean, a number, nil, json.Number, json.RawMessage, or pointers and interfaces to those.
//
// Nil pointers, interfaces, slices and maps are null. An array of bytes, unlike a slice, is an array of numbers. A float32
// is written as its own shortest decimal. No method of the value is called, except IsZero where omitzero asks for it. The
// error is a *Error that lists up to MaxFaults faults. The caller owns the returned bytes.
func Value(v any, l Limits) ([]byte, error) {
	e := newEncoder(l)
	defer e.release()
	e.value(v)
	return e.result()
}

// Raw returns the canonical form of one JSON text (RFC 8259), which may be surrounded by white space and nothing else.
//
// Integers are compared as written, never through a float; a number with a fraction or an exponent is rounded to the
// nearest double as RFC 8785 section 3.2.2.3 asks, and one too small for a double is 0. The error is a *Error. The caller
// owns the returned bytes, and b is not kept.
func Raw(b []byte, l Limits) ([]byte, error) {
	e := newEncoder(l)
	defer e.release()
	s := scanner{e: e, src: b}
	s.document()
	return e.result()
}

// Object is Value for what must be an object at the root: every request and payload. A json.RawMessage may hold it; other
// byte slices are refused, as everywhere. The error is a *Error.
func Object(v any, l Limits) ([]byte, error) {
	b, err := Value(v, l)
	if err == nil && b[0] != '{' {
		return nil, &Error{Faults: []Fault{{Rule: ruleObject}}}
	}
	return b, err
}

// Check reports what Value refuses in every value of type t, with up to MaxFaults faults in one *Error, or nil. It lets a
// contract be refused when it is built. What an interface will hold is not known before there is a value.
func Check(t reflect.Type) error {
	if t == nil {
		return nil
	}
	if faults := planOf(t).faults; len(faults) > 0 {
		return newError(faults)
	}
	return nil
}

// Digest returns the SHA-256 of canonical bytes: the name by which a request or payload is bound.
func Digest(b []byte) [32]byte {
	return sha256.Sum256(b)
}

// The rules that faults cite. They are constants, or made of limits and offsets, so no value can leak into an error.
const (
	ruleObject       = "must be an object"
	ruleDuplicate    = "two members share one name"
	ruleInteger      = "integer beyond ±(2^53−1): send it as a string"
	ruleFinite       = "not a finite number"
	ruleNumber       = "not a JSON number"
	ruleUTF8         = "not valid UTF-8"
	ruleNUL          = "contains U+0000"
	ruleSurrogate    = "contains a lone surrogate"
	rulePointers     = "a chain of pointers too long to follow, or cyclic"
	ruleMarshals     = "marshals itself: give its wire value, such as a string"
	ruleBytes        = "a byte slice: give json.RawMessage for JSON, or a base64 string"
	ruleMapKey       = "map keys must be of a string type that does not marshal itself"
	ruleOmitZero     = "omitzero cannot call IsZero on an unexported embedded field: leave the option out"
	ruleStringOption = "the \",string\" tag option is refused: declare a string"
)

func ruleBytesLimit(n int) string { return fmt.Sprintf("canonical form larger than %d bytes", n) }

func ruleDepthLimit(n int) string {
	if n == MaxDepth {
		return fmt.Sprintf("nested deeper than %d levels, or cyclic", n)
	}
	return fmt.Sprintf("nested deeper than %d levels", n)
}

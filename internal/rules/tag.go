package rules

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/consign-go/consign/internal/canon"
)

// Tag is the name of the struct tag.
const Tag = "consign"

// rule is what the tag of one field says.
type rule struct {
	required, nullable bool
	min, max           *float64
	minLen, maxLen     *int
	enum               []string
}

// kind is how rules see a type.
type kind uint8

const (
	other  kind = iota
	text        // has characters
	whole       // integers
	number      // other numbers
	many        // has entries
)

// kindOf says how rules see t, behind pointers.
func kindOf(t reflect.Type) kind {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[json.Number]():
		return number
	case t == reflect.TypeFor[json.RawMessage]():
		return other
	}
	switch t.Kind() {
	case reflect.String:
		return text
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return whole
	case reflect.Float32, reflect.Float64:
		return number
	case reflect.Slice, reflect.Map:
		return many
	}
	return other
}

// nilable reports whether a value of t can be null.
func nilable(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
		return true
	}
	return false
}

// parse reads the tag of one field; wrong is what is wrong with it.
func parse(f *canon.Field) (r rule, wrong []string) {
	tag, _ := f.Struct.Tag.Lookup(Tag)
	if tag == "" {
		return r, nil
	}
	t := f.Struct.Type
	k := kindOf(t)
	for word := range strings.SplitSeq(tag, ",") {
		name, arg, has := strings.Cut(strings.TrimSpace(word), "=")
		if fault := r.add(t, k, name, arg, has); fault != "" {
			wrong = append(wrong, fault)
		}
	}
	if r.required && !f.Optional && k != text && k != many && !nilable(t) {
		wrong = append(wrong, "required cannot fail on a value that is always there: make it a pointer, or add omitempty")
	}
	if r.min != nil && r.max != nil && *r.min > *r.max || r.minLen != nil && r.maxLen != nil && *r.minLen > *r.maxLen {
		wrong = append(wrong, "the lower limit is above the upper one")
	}
	return r, wrong
}

// add reads one rule of a tag and returns what is wrong with it.
func (r *rule) add(t reflect.Type, k kind, name, arg string, has bool) string {
	if wants := name != "required" && name != "nullable"; wants != has {
		return "rule " + strconv.Quote(name) + " is not known, or has too little or too much after it"
	}
	switch name {
	case "required":
		r.required = true
	case "nullable":
		r.nullable = true
		if !nilable(t) {
			return "nullable is for pointers, slices, maps and interfaces"
		}
	case "min", "max":
		if k != whole && k != number {
			return name + " is for numbers; a text, list or map has " + name + "len"
		}
		return limit(name, arg, map[string]**float64{"min": &r.min, "max": &r.max}[name])
	case "minlen", "maxlen":
		if k != text && k != many {
			return name + " is for texts, lists and maps"
		}
		return length(name, arg, map[string]**int{"minlen": &r.minLen, "maxlen": &r.maxLen}[name])
	case "enum":
		r.enum = strings.Split(arg, "|")
		if k != text && k != whole {
			return "enum is for texts and integers"
		}
		if k == whole && slices.ContainsFunc(r.enum, notWhole) {
			return "enum has a value that is no integer"
		}
	default:
		return "rule " + strconv.Quote(name) + " is not known"
	}
	return ""
}

func limit(name, arg string, to **float64) string {
	n, err := strconv.ParseFloat(arg, 64)
	if err != nil || math.IsInf(n, 0) || math.IsNaN(n) {
		return name + " needs a number"
	}
	*to = &n
	return ""
}

func length(name, arg string, to **int) string {
	n, err := strconv.Atoi(arg)
	if err != nil || n < 0 {
		return name + " needs a whole number from 0"
	}
	*to = &n
	return ""
}

func notWhole(s string) bool {
	n, err := strconv.ParseInt(s, 10, 64)
	return err != nil || strconv.FormatInt(n, 10) != s
}

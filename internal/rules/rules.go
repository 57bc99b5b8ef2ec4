package rules

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/consign-go/consign/internal/canon"
)

// Set is what the tags of a type say. A nil set says nothing.
type Set struct{ root *node }

// node is one type. Nodes of recursive types are cyclic.
type node struct {
	elem   *node // of a pointer, slice, array or map
	fields []member
	idle   bool // nothing in it is ever checked
}

// member is one field of a struct.
type member struct {
	canon.Field
	rule
	kind kind
	node *node
}

// Compile reads the tags of a type. The error is a *canon.Error with up to
// canon.MaxFaults faults.
func Compile(t reflect.Type) (*Set, error) {
	c := compiler{nodes: map[reflect.Type]*node{}}
	root := c.node(t, "")
	if len(c.faults) > 0 {
		return nil, &canon.Error{Faults: c.faults[:min(len(c.faults), canon.MaxFaults)]}
	}
	c.settle()
	if root.idle {
		return nil, nil
	}
	return &Set{root}, nil
}

type compiler struct {
	nodes  map[reflect.Type]*node
	faults []canon.Fault
}

func (c *compiler) node(t reflect.Type, path string) *node {
	if n, ok := c.nodes[t]; ok {
		return n
	}
	n := new(node)
	c.nodes[t] = n
	switch t.Kind() {
	case reflect.Interface:
		if t.NumMethod() > 0 {
			c.faults = append(c.faults, canon.Fault{Path: path, Rule: "cannot be read back: an interface with methods does not say as what"})
		}
	case reflect.Pointer:
		n.elem = c.node(t.Elem(), path)
	case reflect.Slice, reflect.Array:
		n.elem = c.node(t.Elem(), path+"[]")
	case reflect.Map:
		n.elem = c.node(t.Elem(), path+"{}")
	case reflect.Struct:
		c.unwritten(t, path, map[reflect.Type]bool{})
		for _, f := range canon.Fields(t) {
			at := join(path, f.Name)
			r, wrong := parse(&f)
			if fault := unreadable(t, &f); fault != "" {
				wrong = append(wrong, fault)
			}
			for _, w := range wrong {
				c.faults = append(c.faults, canon.Fault{Path: at, Rule: w})
			}
			n.fields = append(n.fields, member{f, r, kindOf(f.Struct.Type), c.node(f.Struct.Type, at)})
		}
	}
	return n
}

// unwritten refuses rules of fields that are not written: they would never be looked
// at. What an embedded struct holds is written as its own fields.
func (c *compiler) unwritten(t reflect.Type, path string, seen map[reflect.Type]bool) {
	if seen[t] {
		return
	}
	seen[t] = true
	for f := range t.Fields() {
		_, ruled := f.Tag.Lookup(Tag)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		embeds := f.Anonymous && inner.Kind() == reflect.Struct
		written := f.IsExported() || embeds
		switch {
		case ruled && (!written || f.Tag.Get("json") == "-"):
			c.faults = append(c.faults, canon.Fault{Path: join(path, f.Name), Rule: "has rules and is not written, so they would never be checked"})
		case ruled && embeds && name == "":
			c.faults = append(c.faults, canon.Fault{Path: join(path, f.Name), Rule: "has rules, which belong to the fields that it embeds"})
		case embeds && name == "":
			c.unwritten(inner, path, seen)
		}
	}
}

// unreadable says why encoding/json cannot read back what is written of a field;
// empty: it can.
func unreadable(t reflect.Type, f *canon.Field) string {
	for _, i := range f.Struct.Index {
		step := t.Field(i)
		if t = step.Type; t.Kind() != reflect.Pointer {
			continue
		}
		if t = t.Elem(); step.Anonymous && !step.IsExported() {
			return "cannot be read back: it is embedded by a pointer to a type whose name is not exported"
		}
	}
	return ""
}

// settle marks the nodes in which nothing is ever checked: all, until something
// is found in one of them.
func (c *compiler) settle() {
	for _, n := range c.nodes {
		n.idle = true
	}
	for changed := true; changed; {
		changed = false
		for _, n := range c.nodes {
			if n.idle && n.checks() {
				n.idle, changed = false, true
			}
		}
	}
}

func (n *node) checks() bool {
	for i := range n.fields {
		if m := &n.fields[i]; m.ruled() || !m.node.idle {
			return true
		}
	}
	return n.elem != nil && !n.elem.idle
}

// ruled reports whether the member itself is checked.
func (m *member) ruled() bool {
	return m.required || nilable(m.Struct.Type) && !m.nullable || m.min != nil || m.max != nil ||
		m.minLen != nil || m.maxLen != nil || m.enum != nil
}

// Check returns what is wrong with the value of the set's type that v points to, up to
// canon.MaxFaults faults; nil: nothing.
func (s *Set) Check(v any) []canon.Fault {
	if s == nil {
		return nil
	}
	w := walk{}
	w.value(reflect.ValueOf(v).Elem(), s.root, "", 0)
	return w.faults
}

type walk struct{ faults []canon.Fault }

func (w *walk) add(path, rule string) {
	if len(w.faults) < canon.MaxFaults {
		w.faults = append(w.faults, canon.Fault{Path: path, Rule: rule})
	}
}

// value checks what is inside v. A cyclic value ends with the depth that no
// canonical form has either.
func (w *walk) value(v reflect.Value, n *node, path string, depth int) {
	if n.idle || depth > canon.MaxDepth || len(w.faults) == canon.MaxFaults {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			w.value(v.Elem(), n.elem, path, depth+1)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			w.value(v.Index(i), n.elem, path+"["+strconv.Itoa(i)+"]", depth+1)
		}
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
		for i, k := range keys {
			w.value(v.MapIndex(k), n.elem, path+"{"+strconv.Itoa(i)+"}", depth+1)
		}
	case reflect.Struct:
		for i := range n.fields {
			w.member(v, &n.fields[i], path, depth)
		}
	}
}

func (w *walk) member(v reflect.Value, m *member, path string, depth int) {
	path = join(path, m.Name)
	inner, there := m.Of(v)
	switch {
	case !there && m.required:
		w.add(path, "is required")
		return
	case !there:
		return
	case null(inner):
		if m.required && !m.nullable {
			w.add(path, "is required")
		} else if !m.nullable {
			w.add(path, "is null, and not declared nullable")
		}
		return
	}
	plain := inner
	for plain.Kind() == reflect.Pointer && !plain.IsNil() {
		plain = plain.Elem()
	}
	if fault := m.broken(plain, m.kind); fault != "" {
		w.add(path, fault)
	}
	w.value(inner, m.node, path, depth+1)
}

// null reports whether v is written as null: itself, or what it points to or holds.
// A cyclic value ends with the depth that no canonical form has either.
func null(v reflect.Value) bool {
	for range canon.MaxDepth {
		if !nilable(v.Type()) {
			return false
		}
		if v.IsNil() {
			return true
		}
		switch {
		case v.Type() == rawType:
			return string(bytes.TrimSpace(v.Bytes())) == "null"
		case v.Kind() != reflect.Pointer && v.Kind() != reflect.Interface:
			return false
		}
		v = v.Elem()
	}
	return false
}

var rawType = reflect.TypeFor[json.RawMessage]()

// broken returns how a value that is there breaks the rule; empty: it does not.
func (r *rule) broken(v reflect.Value, k kind) string {
	switch k {
	case text, many:
		n := 0
		if k == text {
			n = utf8.RuneCountInString(v.String())
		} else {
			n = v.Len()
		}
		if r.required && n == 0 {
			return "is required"
		}
		if r.minLen != nil && n < *r.minLen || r.maxLen != nil && n > *r.maxLen {
			return fmt.Sprintf("%d %s, limit %s", n, map[kind]string{text: "characters", many: "entries"}[k], between(r.minLen, r.maxLen))
		}
		if k == text && r.enum != nil && !slices.Contains(r.enum, v.String()) {
			return "is none of its declared values"
		}
	case whole, number:
		if r.min == nil && r.max == nil && r.enum == nil {
			return ""
		}
		f, digits := numeric(v)
		if r.min != nil && !(f >= *r.min) || r.max != nil && !(f <= *r.max) {
			return "is out of range, limit " + between(r.min, r.max)
		}
		if r.enum != nil && !slices.Contains(r.enum, digits) {
			return "is none of its declared values"
		}
	}
	return ""
}

// numeric is a number's value, and its digits if it is an integer.
func numeric(v reflect.Value) (float64, string) {
	switch {
	case v.CanInt():
		return float64(v.Int()), strconv.FormatInt(v.Int(), 10)
	case v.CanUint():
		return float64(v.Uint()), strconv.FormatUint(v.Uint(), 10)
	case v.CanFloat():
		return v.Float(), ""
	}
	f, _ := json.Number(v.String()).Float64() // what is no number is refused where it is written
	return f, ""
}

func between[N int | float64](low, high *N) string {
	switch {
	case low == nil:
		return fmt.Sprint(*high)
	case high == nil:
		return "at least " + fmt.Sprint(*low)
	}
	return fmt.Sprintf("%v to %v", *low, *high)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

package rules

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
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
	case reflect.Pointer:
		n.elem = c.node(t.Elem(), path)
	case reflect.Slice, reflect.Array:
		n.elem = c.node(t.Elem(), path+"[]")
	case reflect.Map:
		n.elem = c.node(t.Elem(), path+"{}")
	case reflect.Struct:
		for _, f := range canon.Fields(t) {
			at := join(path, f.Name)
			r, wrong := parse(&f)
			for _, w := range wrong {
				c.faults = append(c.faults, canon.Fault{Path: at, Rule: w})
			}
			n.fields = append(n.fields, member{f, r, kindOf(f.Struct.Type), c.node(f.Struct.Type, at)})
		}
	}
	return n
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

// null reports whether v is written as null.
func null(v reflect.Value) bool {
	if raw, ok := v.Interface().(json.RawMessage); ok {
		return string(bytes.TrimSpace(raw)) == "null"
	}
	for nilable(v.Type()) {
		if v.IsNil() {
			return true
		}
		if v.Kind() != reflect.Pointer {
			return false
		}
		v = v.Elem()
	}
	return false
}

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

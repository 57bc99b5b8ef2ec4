package canon

import (
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// field is one member that a struct writes.
type field struct {
	name    string
	opening string // ,"name":  (without the comma for the first member)
	index   []int  // from the struct, through embedded ones, to the field
	plan    *plan
	omit    func(reflect.Value) bool // nil: never
}

// of returns the value of the field in v, and false if it lies in an embedded struct that a nil pointer leaves out.
func (f *field) of(v reflect.Value) (reflect.Value, bool) {
	if len(f.index) == 1 {
		return v.Field(f.index[0]), true
	}
	for i, x := range f.index {
		if i > 0 && v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return reflect.Value{}, false
			}
			v = v.Elem()
		}
		v = v.Field(x)
	}
	return v, true
}

// claim is a Go field that would be written under a name.
type claim struct {
	name   string
	goName string // Embedded.Field
	index  []int
	field  reflect.StructField
	option options
}

// options are what a json tag says after the name.
type options struct{ omitEmpty, omitZero, asString bool }

// level is a struct type whose fields are at the same depth of embedding as its siblings'.
type level struct {
	typ    reflect.Type
	index  []int
	goName string
}

// structure fills the plan of a struct: its fields as encoding/json finds them, depth by depth. A name claimed at one
// depth hides the same name further down, as Go's own embedding does. Two claims at one depth are refused, because
// encoding/json drops one or both of them without a word.
func (b planner) structure(p *plan, t reflect.Type) {
	p.form = formStruct
	taken := map[string]bool{}
	walked := map[reflect.Type]bool{}
	for here := []level{{typ: t}}; len(here) > 0; {
		var claims []claim
		var below []level
		for _, l := range here {
			walked[l.typ] = true
			l.fields(&claims, &below, p)
		}
		first := map[string]string{}
		for _, c := range claims {
			if other, ok := first[c.name]; ok {
				p.own = append(p.own, Fault{"." + c.name, "fields " + other + " and " + c.goName + " claim this name"})
			} else if !taken[c.name] {
				first[c.name] = c.goName
				b.field(p, c)
			}
		}
		for name := range first {
			taken[name] = true
		}
		here = slices.DeleteFunc(below, func(l level) bool { return walked[l.typ] })
	}
	slices.SortFunc(p.fields, func(a, b field) int { return compare(a.name, b.name) })
}

// fields lists the claims of one struct type, and the structs embedded in it.
func (l level) fields(claims *[]claim, below *[]level, p *plan) {
	for i := range l.typ.NumField() {
		f := l.typ.Field(i)
		inner := f.Type
		if f.Anonymous && inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		// The exported fields of an embedded struct count even if its own name is not exported.
		if !f.IsExported() && !(f.Anonymous && inner.Kind() == reflect.Struct) || f.Tag.Get("json") == "-" {
			continue
		}
		name, option := parseTag(f.Tag.Get("json"))
		index := append(slices.Clip(l.index), i)
		if name == "" && f.Anonymous && inner.Kind() == reflect.Struct {
			if marshalsItself(inner) {
				p.own = append(p.own, Fault{"." + f.Name, ruleMarshals})
				continue
			}
			*below = append(*below, level{inner, index, l.goName + f.Name + "."})
			continue
		}
		if name == "" {
			name = f.Name
		}
		*claims = append(*claims, claim{name, l.goName + f.Name, index, f, option})
	}
}

func (b planner) field(p *plan, c claim) {
	if c.option.asString {
		p.own = append(p.own, Fault{"." + c.name, ruleStringOption})
	}
	if cannotOmit(c.field, c.option) {
		p.own = append(p.own, Fault{"." + c.name, ruleOmitZero})
	}
	p.fields = append(p.fields, field{
		name:    c.name,
		opening: `,"` + c.name + `":`, // no tag or Go name has a character to escape
		index:   c.index,
		plan:    b.plan(c.field.Type),
		omit:    omission(c.field.Type, c.option),
	})
}

// parseTag splits a json tag. A name that encoding/json does not accept counts as none, so that both agree on it.
func parseTag(tag string) (string, options) {
	name, rest, _ := strings.Cut(tag, ",")
	var o options
	for word := range strings.SplitSeq(rest, ",") {
		switch word {
		case "omitempty":
			o.omitEmpty = true
		case "omitzero":
			o.omitZero = true
		case "string":
			o.asString = true
		}
	}
	refused := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r)
	}
	if strings.ContainsFunc(name, refused) {
		return "", o
	}
	return name, o
}

// omission returns the test that leaves a field out, or nil if its tag has none.
func omission(t reflect.Type, o options) func(reflect.Value) bool {
	switch {
	case o.omitEmpty && o.omitZero:
		zero := zeroTest(t)
		return func(v reflect.Value) bool { return empty(v) || zero(v) }
	case o.omitEmpty:
		return empty
	case o.omitZero:
		return zeroTest(t)
	}
	return nil
}

// empty is omitempty: false, 0, nil pointers and interfaces, and whatever has the length 0. A struct is never empty.
func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

// zeroer is the method by which a type tells omitzero what its zero is.
type zeroer interface{ IsZero() bool }

var zeroerType = reflect.TypeFor[zeroer]()

// cannotOmit reports whether omitzero would have to call a method on an embedded struct whose name is not exported. Go
// does not allow that, and encoding/json panics.
func cannotOmit(f reflect.StructField, o options) bool {
	return o.omitZero && !f.IsExported() && (f.Type.Implements(zeroerType) || reflect.PointerTo(f.Type).Implements(zeroerType))
}

// zeroTest is omitzero: the IsZero method of the type, or of a pointer to it, and else the zero value. A nil pointer or
// interface is zero without asking it.
func zeroTest(t reflect.Type) func(reflect.Value) bool {
	switch {
	case t.Implements(zeroerType):
		return func(v reflect.Value) bool {
			inner := v
			if v.Kind() == reflect.Interface {
				inner = v.Elem()
			}
			if !inner.IsValid() || inner.Kind() == reflect.Pointer && inner.IsNil() {
				return true
			}
			return v.Interface().(zeroer).IsZero()
		}
	case reflect.PointerTo(t).Implements(zeroerType):
		return func(v reflect.Value) bool {
			p := reflect.New(t)
			p.Elem().Set(v)
			return p.Interface().(zeroer).IsZero()
		}
	}
	return reflect.Value.IsZero
}

package canon

import (
	"encoding"
	"encoding/json"
	"reflect"
	"sync"
)

// form is how values of a type are written.
type form uint8

const (
	formRefused form = iota
	formString
	formBool
	formInt
	formUint
	formFloat
	formNumber // json.Number
	formRaw    // json.RawMessage
	formInterface
	formPointer
	formSlice
	formArray
	formMap
	formStruct
)

// plan is what is known about a type before any value of it is seen. Plans of recursive types are cyclic.
type plan struct {
	form   form
	size   int          // of a float, in bits
	elem   *plan        // of a pointer, slice, array or map
	shape  reflect.Type // of a map that needs no copy: anyMap or stringMap
	fields []field      // of a struct, in canonical order
	own    []Fault      // of the type itself
	faults []Fault      // of the type and everything in it; set only on what planOf returns
}

var (
	numberType    = reflect.TypeFor[json.Number]()
	rawType       = reflect.TypeFor[json.RawMessage]()
	anyMap        = reflect.TypeFor[map[string]any]()
	stringMap     = reflect.TypeFor[map[string]string]()
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// plans caches planOf by reflect.Type. A program has a bounded number of types, so it only grows to a bounded size.
var plans sync.Map

// planOf returns the plan of a type, building it once. Each has its own copy of the plans inside it, so that none is ever
// seen half built by another goroutine.
func planOf(t reflect.Type) *plan {
	if p, ok := plans.Load(t); ok {
		return p.(*plan)
	}
	p := planner{}.plan(t)
	p.collect("", map[*plan]bool{}, &p.faults)
	cached, _ := plans.LoadOrStore(t, p)
	return cached.(*plan)
}

// planner holds the plans being built, so that a recursive type ends in the plan that stands for it.
type planner map[reflect.Type]*plan

func (b planner) plan(t reflect.Type) *plan {
	if p, ok := b[t]; ok {
		return p
	}
	p := new(plan)
	b[t] = p
	switch {
	case t == numberType:
		p.form = formNumber
	case t == rawType:
		p.form = formRaw
	case marshalsItself(t):
		p.refuse(ruleMarshals)
	default:
		b.fill(p, t)
	}
	return p
}

func (b planner) fill(p *plan, t reflect.Type) {
	switch t.Kind() {
	case reflect.String:
		p.form = formString
	case reflect.Bool:
		p.form = formBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		p.form = formInt
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		p.form = formUint
	case reflect.Float32, reflect.Float64:
		p.form, p.size = formFloat, t.Bits()
	case reflect.Interface:
		p.form = formInterface
	case reflect.Pointer:
		p.form, p.elem = formPointer, b.plan(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			p.refuse(ruleBytes)
			return
		}
		p.form, p.elem = formSlice, b.plan(t.Elem())
	case reflect.Array:
		p.form, p.elem = formArray, b.plan(t.Elem())
	case reflect.Map:
		b.mapping(p, t)
	case reflect.Struct:
		b.structure(p, t)
	default: // chan, func, complex, uintptr, unsafe.Pointer
		p.refuse("a " + t.Kind().String() + " has no JSON form")
	}
}

func (b planner) mapping(p *plan, t reflect.Type) {
	if t.Key().Kind() != reflect.String || marshalsItself(t.Key()) {
		p.refuse(ruleMapKey)
		return
	}
	p.form, p.elem = formMap, b.plan(t.Elem())
	for _, shape := range []reflect.Type{anyMap, stringMap} {
		if t.Key() == shape.Key() && t.Elem() == shape.Elem() {
			p.shape = shape
		}
	}
}

func (p *plan) refuse(rule string) {
	p.form = formRefused
	p.own = append(p.own, Fault{Rule: rule})
}

// collect appends the faults of p and of everything in it, each with its path. What was walked once is not walked again,
// which ends recursive types; refused types are small and are reported wherever they stand.
func (p *plan) collect(path string, walked map[*plan]bool, out *[]Fault) {
	for _, f := range p.own {
		if len(*out) == MaxFaults {
			return
		}
		*out = append(*out, Fault{Path: join(path, f.Path), Rule: f.Rule})
	}
	if p.form == formRefused || walked[p] {
		return
	}
	walked[p] = true
	switch p.form {
	case formPointer:
		p.elem.collect(path, walked, out)
	case formSlice, formArray:
		p.elem.collect(path+"[]", walked, out)
	case formMap:
		p.elem.collect(path+"{}", walked, out)
	case formStruct:
		for i := range p.fields {
			p.fields[i].plan.collect(path+"."+p.fields[i].name, walked, out)
		}
	}
}

// marshalsItself reports whether encoding/json would call a method of t, or of a pointer to it, instead of looking inside.
// Interfaces are judged by what they hold.
func marshalsItself(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Interface, reflect.Pointer:
		return false
	}
	p := reflect.PointerTo(t) // has the methods of t as well
	return p.Implements(marshaler) || p.Implements(textMarshaler)
}

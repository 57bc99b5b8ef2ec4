package canon

import (
	"encoding/json"
	"reflect"
	"slices"
)

// value writes a value whose type is known only now. The types that decoded JSON is made of need no reflection.
func (e *encoder) value(v any) bool {
	switch v := v.(type) {
	case nil:
		return e.null()
	case string:
		return text(e, v)
	case bool:
		return e.boolean(v)
	case float64:
		return e.float(v, 64)
	case int:
		return e.integer(int64(v))
	case json.Number:
		return e.number(string(v))
	case json.RawMessage:
		return e.raw(v)
	case map[string]any:
		return dict(e, v, (*encoder).value)
	case []any:
		return list(e, v)
	}
	p := planOf(reflect.TypeOf(v))
	for _, f := range p.faults {
		e.faults = append(e.faults, f)
		if len(e.faults) == MaxFaults {
			return false
		}
	}
	return len(p.faults) > 0 || e.walk(reflect.ValueOf(v), p)
}

// walk writes a value by the plan of its type.
func (e *encoder) walk(v reflect.Value, p *plan) bool {
	switch p.form {
	case formString:
		return text(e, v.String())
	case formBool:
		return e.boolean(v.Bool())
	case formInt:
		return e.integer(v.Int())
	case formUint:
		return e.unsigned(v.Uint())
	case formFloat:
		return e.float(v.Float(), p.size)
	case formNumber:
		return e.number(v.String())
	case formRaw:
		return e.raw(v.Bytes())
	case formStruct:
		return e.structure(v, p)
	case formPointer:
		return e.pointer(v, p)
	case formInterface:
		if v.IsNil() {
			return e.null()
		}
		return e.value(v.Interface())
	case formSlice:
		if v.IsNil() {
			return e.null()
		}
		return e.sequence(v, p)
	case formArray:
		return e.sequence(v, p)
	case formMap:
		return e.mapping(v, p)
	}
	// A refused type has faults, so no value of it gets here.
	panic("canon: no form for " + v.Type().String())
}

// raw writes a json.RawMessage; a nil one is null, as in encoding/json.
func (e *encoder) raw(b []byte) bool {
	if b == nil {
		return e.null()
	}
	s := scanner{e: e, src: b}
	return s.document()
}

// pointer follows one pointer. The count ends a cycle that has no container in it, such as type P *P.
func (e *encoder) pointer(v reflect.Value, p *plan) bool {
	if v.IsNil() {
		return e.null()
	}
	if e.pointers++; e.pointers > MaxDepth {
		return e.stop(rulePointers)
	}
	ok := e.walk(v.Elem(), p.elem)
	e.pointers--
	return ok
}

func (e *encoder) structure(v reflect.Value, p *plan) bool {
	if !e.enter() {
		return false
	}
	e.buf = append(e.buf, '{')
	comma := 0
	for i := range p.fields {
		f := &p.fields[i]
		value, there := f.of(v)
		if !there || f.omit != nil && f.omit(value) {
			continue
		}
		e.buf = append(e.buf, f.opening[1-comma:]...)
		comma = 1
		n := len(e.faults)
		ok := e.walk(value, f.plan)
		if len(e.faults) > n {
			e.under(n, "."+f.name)
		}
		if !ok || !e.room(0) {
			return false
		}
	}
	e.buf = append(e.buf, '}')
	e.depth--
	return e.room(0)
}

// sequence writes a slice or an array; list does the same for []any.
func (e *encoder) sequence(v reflect.Value, p *plan) bool {
	if !e.enter() {
		return false
	}
	e.buf = append(e.buf, '[')
	for i := range v.Len() {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		n := len(e.faults)
		ok := e.walk(v.Index(i), p.elem)
		if len(e.faults) > n {
			e.under(n, element(i))
		}
		if !ok || !e.room(0) {
			return false
		}
	}
	e.buf = append(e.buf, ']')
	e.depth--
	return e.room(0)
}

func list(e *encoder, values []any) bool {
	if values == nil {
		return e.null()
	}
	if !e.enter() {
		return false
	}
	e.buf = append(e.buf, '[')
	for i, v := range values {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		n := len(e.faults)
		ok := e.value(v)
		if len(e.faults) > n {
			e.under(n, element(i))
		}
		if !ok || !e.room(0) {
			return false
		}
	}
	e.buf = append(e.buf, ']')
	e.depth--
	return e.room(0)
}

// mapping writes a map with string keys. The two common shapes are taken out of reflection, under whatever name their
// type has.
func (e *encoder) mapping(v reflect.Value, p *plan) bool {
	if v.IsNil() {
		return e.null()
	}
	switch p.shape {
	case anyMap:
		return dict(e, v.Convert(anyMap).Interface().(map[string]any), (*encoder).value)
	case stringMap:
		return dict(e, v.Convert(stringMap).Interface().(map[string]string), text[string])
	}
	base := len(e.names)
	key := reflect.New(v.Type().Key()).Elem()
	for entries := v.MapRange(); entries.Next(); {
		key.SetIterKey(entries)
		e.names = append(e.names, key.String())
	}
	return e.entries(base, func(name string) bool {
		key.SetString(name)
		return e.walk(v.MapIndex(key), p.elem)
	})
}

// dict writes a map outside of reflection, each value by item.
func dict[V any](e *encoder, m map[string]V, item func(*encoder, V) bool) bool {
	if m == nil {
		return e.null()
	}
	base := len(e.names)
	for name := range m {
		e.names = append(e.names, name)
	}
	return e.entries(base, func(name string) bool { return item(e, m[name]) })
}

// entries writes an object of the names from base on, which it sorts and pops, each value by item. The keys of one map are
// different strings already.
func (e *encoder) entries(base int, item func(name string) bool) bool {
	if !e.enter() {
		return false
	}
	end := len(e.names)
	slices.SortFunc(e.names[base:], compare[string])
	e.buf = append(e.buf, '{')
	for i := base; i < end; i++ {
		if i > base {
			e.buf = append(e.buf, ',')
		}
		name := e.names[i] // by index, because deeper maps may move the stack
		n := len(e.faults)
		ok := text(e, name)
		e.inName(n)
		e.buf = append(e.buf, ':')
		ok = ok && item(name)
		if len(e.faults) > n {
			e.under(n, entry(i-base))
		}
		if !ok || !e.room(0) {
			return false
		}
	}
	clear(e.names[base:])
	e.names = e.names[:base]
	e.buf = append(e.buf, '}')
	e.depth--
	return e.room(0)
}

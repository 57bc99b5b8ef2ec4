package canon

import "reflect"

// Field is one member that a struct writes, for packages that walk a value along with this one.
type Field struct {
	Name     string              // of the member, as it is written
	Struct   reflect.StructField // with its Index from the struct, through embedded ones
	Optional bool                // its tag lets it be left out

	field *field
}

// Fields lists the members that values of struct type t write, in canonical order. A type that Check refuses may have
// fewer than it seems to.
func Fields(t reflect.Type) []Field {
	p := planOf(t)
	out := make([]Field, len(p.fields))
	for i := range p.fields {
		f := &p.fields[i]
		at := t.FieldByIndex(f.index)
		at.Index = f.index
		out[i] = Field{Name: f.name, Struct: at, Optional: f.omit != nil, field: f}
	}
	return out
}

// Of returns the member's value in v, and false if v leaves it out.
func (f *Field) Of(v reflect.Value) (reflect.Value, bool) {
	inner, there := f.field.of(v)
	if !there || f.field.omit != nil && f.field.omit(inner) {
		return reflect.Value{}, false
	}
	return inner, true
}

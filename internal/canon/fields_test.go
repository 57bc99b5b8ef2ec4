package canon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

type (
	Inner struct {
		ID   string `json:"id"`
		Deep int
	}
	hidden struct {
		Seen  int `json:"seen,omitempty"`
		unset int
	}
	Tree struct {
		Name string
		Kids []*Tree         `json:"kids,omitempty"`
		By   map[string]Tree `json:",omitempty"`
	}
	Loop struct {
		*Loop
		A int
	}
	Deep1 struct{ A, B, C int }
	Deep2 struct {
		*Deep1
		D, E int
	}
	Deep3 struct {
		Deep2
		F, G int
	}
	Deep4 struct {
		Deep3
		H, I int
	}
	day      int
	dayByPtr struct{ N int }
	scalar   float64
	Named    string
)

func (d day) IsZero() bool       { return d == 7 }
func (d *dayByPtr) IsZero() bool { return d.N == 7 }

type zeroInterface interface{ IsZero() bool }

// What is written for a struct is what encoding/json would write, canonicalised: names, order of precedence, omissions.
func TestStructsAreReadAsEncodingJSONReadsThem(t *testing.T) {
	for _, v := range slices.Concat(namedStructs(), omittingStructs(), plainStructs()) {
		standard, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		want, err := Raw(standard, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Value(v, Limits{}); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%T:\ngot  %s, %v\nwant %s", v, got, err, want)
		}
		if err := Check(reflect.TypeOf(v)); err != nil {
			t.Errorf("Check %T: %v", v, err)
		}
	}
}

// namedStructs find the names of their fields in tags, in Go names and in embedded structs.
func namedStructs() []any {
	return []any{
		struct{}{}, &struct{ A, B int }{1, 2}, struct{ b, A int }{1, 2},
		struct {
			A int `json:"x"`
			B int `json:"-"`
			C int `json:"-,"`
			D int `json:""`
			E int `json:",omitempty"`
			F int `json:"bad\"name"`
			G int `json:"ok.!#$%&()*+-/:;<=>?@[]^_{|}~ ö"`
			H int `xml:"h"`
			I int `json:"<&>"`
		}{1, 2, 3, 4, 0, 6, 7, 8, 9},
		struct {
			Inner
			ID string
		}{Inner{"in", 1}, "out"},
		struct {
			*Inner
			A int
		}{nil, 1},
		struct {
			*Inner
			ID string `json:"id"`
		}{&Inner{"hidden by the outer one", 3}, "outer"},
		struct {
			Inner `json:"inner"`
			A     int
		}{Inner{"x", 1}, 2},
		struct{ hidden }{hidden{1, 2}}, struct{ *hidden }{&hidden{Seen: 1}}, struct{ *hidden }{},
		struct {
			hidden `json:"h"`
		}{hidden{1, 2}},
		struct{ scalar }{1}, struct{ Named }{"n"}, struct{ fmt.Stringer }{}, struct{ *Named }{},
		Tree{"r", []*Tree{{Name: "k"}, nil}, map[string]Tree{"b": {}, "a": {Name: "<&>"}}},
		Loop{&Loop{nil, 2}, 1},
	}
}

// omittingStructs leave fields out, and keep some that look as if they should not.
func omittingStructs() []any {
	seven, text := day(7), "t"
	return []any{
		struct {
			B  bool            `json:",omitempty"`
			S  string          `json:",omitempty"`
			F  float64         `json:",omitempty"`
			P  *int            `json:",omitempty"`
			I  any             `json:",omitempty"`
			L  []int           `json:",omitempty"`
			M  map[string]int  `json:",omitempty"`
			A  [0]int          `json:",omitempty"`
			A2 [2]int          `json:",omitempty"`
			St struct{ X int } `json:",omitempty"`
		}{L: []int{}, M: map[string]int{}},
		struct {
			A  [2]int          `json:",omitzero"`
			S  struct{ X int } `json:",omitzero"`
			L  []int           `json:",omitzero"`
			M  map[string]int  `json:",omitempty,omitzero"`
			D  day             `json:",omitzero"`
			E  day             `json:",omitzero"`
			P  *day            `json:",omitzero"`
			Q  *day            `json:",omitzero"`
			R  dayByPtr        `json:",omitzero"`
			T  dayByPtr        `json:",omitzero"`
			U  zeroInterface   `json:",omitzero"`
			V  zeroInterface   `json:",omitzero"`
			W  zeroInterface   `json:",omitzero"`
			X  any             `json:",omitzero"`
			Y  *string         `json:",omitzero"`
			Z  map[string]int  `json:",omitempty,omitzero"`
			B1 [2]int          `json:",omitempty,omitzero"`
			B2 struct{ N int } `json:",omitempty,omitzero"`
		}{L: []int{}, D: 7, E: 0, P: &seven, R: dayByPtr{7}, V: day(7), W: (*day)(nil), Y: &text, Z: map[string]int{}},
	}
}

// plainStructs have fields of every kind.
func plainStructs() []any {
	return []any{
		struct {
			I8  int8
			U16 uint16
			F32 float32
			F64 float64
			S   []string
			N   []string
			M   map[string]bool
			A   [3]bool
			P   **int
			X   any
			Y   []any
		}{-8, 16, 0.1, 1e-9, []string{"\n", ""}, nil, nil, [3]bool{true}, nil, []any{nil, 1, "x", map[string]any{}}, []any{}},
		[4]uint8{1, 2, 3, 4},
		Deep4{Deep3{Deep2{&Deep1{1, 2, 3}, 4, 5}, 6, 7}, 8, 9},
		struct {
			A int `json:"\ufb33"`
			B int `json:"\U0001d4b3"`
			C int `json:"z"`
		}{1, 2, 3},
	}
}

// Where encoding/json silently drops one or both of two fields with one name, nothing is written at all.
func TestFieldsThatCollideAreRefused(t *testing.T) {
	type A struct{ X, Y int }
	type B struct{ X, Z int }
	type C struct{ A }
	type D struct{ A }
	for want, v := range map[string]any{
		"x: fields A and B claim this name": tagged(`json:"x"`, `json:"x"`),
		"B: fields A and B claim this name": tagged(`json:"B"`, ``), // encoding/json would write A and drop B
		"X: fields A.X and B.X claim this name": struct {
			A
			B
		}{},
		"in[].X: fields A.X and B.X claim this name": struct {
			In []struct {
				A
				B
			} `json:"in"`
		}{},
		"X: fields C.A.X and D.A.X claim this name; Y: fields C.A.Y and D.A.Y claim this name": struct {
			C
			D
		}{},
	} {
		if _, err := Value(v, Limits{}); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	// A name that is claimed further out hides the collision below it, in Go as in JSON.
	if got, err := Value(struct {
		A
		B
		X string
	}{X: "x"}, Limits{}); err != nil || string(got) != `{"X":"x","Y":0,"Z":0}` {
		t.Errorf("got %s, %v", got, err)
	}
}

// tagged returns a struct{ A, B int } with these tags, which go vet would not let stand in the source.
func tagged(a, b reflect.StructTag) any {
	number := reflect.TypeFor[int]()
	return reflect.Zero(reflect.StructOf([]reflect.StructField{
		{Name: "A", Type: number, Tag: a}, {Name: "B", Type: number, Tag: b},
	})).Interface()
}

// Structs made at random, tags and values included, are either refused for a collision or written as encoding/json does.
func TestRandomStructsAgreeWithEncodingJSON(t *testing.T) {
	types := []reflect.Type{
		reflect.TypeFor[string](), reflect.TypeFor[int16](), reflect.TypeFor[bool](), reflect.TypeFor[float32](),
		reflect.TypeFor[*uint8](), reflect.TypeFor[[]string](), reflect.TypeFor[map[string]int8](), reflect.TypeFor[any](),
		reflect.TypeFor[[2]bool](), reflect.TypeFor[Inner](), reflect.TypeFor[*Tree](), reflect.TypeFor[json.Number](),
	}
	tags := []string{"", "", "a", "b", "F1", "-", "é", "bad\x01", "\ufb33", "\U0001d4b3"}
	options := []string{"", "", ",omitempty", ",omitzero", ",omitempty,omitzero", ",unknown"}
	rapid.Check(t, func(t *rapid.T) {
		var fields []reflect.StructField
		var names []string
		for i := range rapid.IntRange(0, 6).Draw(t, "fields") {
			f := reflect.StructField{Name: fmt.Sprintf("F%d", i), Type: rapid.SampledFrom(types).Draw(t, "type")}
			name, option := rapid.SampledFrom(tags).Draw(t, "name"), rapid.SampledFrom(options).Draw(t, "option")
			f.Tag = reflect.StructTag(fmt.Sprintf("json:%q", name+option))
			fields = append(fields, f)
			switch {
			case name == "-" && option == "":
			case name == "" || strings.HasPrefix(name, "bad"):
				names = append(names, f.Name)
			default:
				names = append(names, name)
			}
		}
		slices.Sort(names)
		collide := len(slices.Compact(slices.Clone(names))) != len(names)
		v := reflect.New(reflect.StructOf(fields)).Elem()
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
		got, err := Value(v.Interface(), Limits{})
		if collide {
			if err == nil || !strings.Contains(err.Error(), "claim this name") {
				t.Fatalf("%s: got %s, %v", v.Type(), got, err)
			}
			return
		}
		standard, jsonErr := json.Marshal(v.Interface())
		if jsonErr != nil {
			t.Fatal(jsonErr)
		}
		if want, wantErr := Raw(standard, Limits{}); err != nil || wantErr != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s:\ngot  %s, %v\nwant %s, %v", v.Type(), got, err, want, wantErr)
		}
	})
}

// fill sets v at random, to its zero value about every other time.
func fill(t *rapid.T, v reflect.Value) {
	zero := rapid.Bool().Draw(t, "zero")
	if v.Type() == numberType {
		v.SetString(rapid.SampledFrom([]string{"0", "-1.50", "1e3"}).Draw(t, "number"))
		return
	}
	if zero {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(anyText().Draw(t, "string"))
	case reflect.Int16, reflect.Int8, reflect.Int:
		v.SetInt(int64(rapid.Int8().Draw(t, "int")))
	case reflect.Uint8:
		v.SetUint(uint64(rapid.Uint8().Draw(t, "uint")))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float32:
		v.SetFloat(float64(rapid.Float32Range(-1e6, 1e6).Draw(t, "float")))
	case reflect.Interface:
		if x := anyValue(2).Draw(t, "any"); x != nil {
			v.Set(reflect.ValueOf(x))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), rapid.IntRange(0, 3).Draw(t, "len"), 3))
		for i := range v.Len() {
			fill(t, v.Index(i))
		}
	case reflect.Array:
		fill(t, v.Index(rapid.IntRange(0, v.Len()-1).Draw(t, "index")))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range rapid.IntRange(0, 3).Draw(t, "len") {
			value := reflect.New(v.Type().Elem()).Elem()
			fill(t, value)
			v.SetMapIndex(reflect.ValueOf(anyText().Draw(t, "key")).Convert(v.Type().Key()), value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	}
}

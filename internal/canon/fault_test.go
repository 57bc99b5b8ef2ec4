package canon

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// A path names struct fields, which come from code, and counts everything that comes from data.
func TestPathsLeadToTheFault(t *testing.T) {
	type line struct {
		Price float64         `json:"price"`
		Meta  map[string]any  `json:"meta"`
		Raw   json.RawMessage `json:"raw"`
	}
	type order struct {
		Lines []*line `json:"lines"`
		Top   any
	}
	bad := func(l line) order { return order{Lines: []*line{{}, nil, &l}} }
	for want, v := range map[string]any{
		"":                             math.NaN(),
		"[1]":                          []float64{0, math.NaN()},
		"lines[2].price":               bad(line{Price: math.NaN()}),
		"lines[2].meta{1}":             bad(line{Meta: map[string]any{"b": math.NaN(), "a": 1, "c": 1}}),
		"lines[2].meta{0}[0]{0}":       bad(line{Meta: map[string]any{"k": []any{map[string]float64{"x": math.NaN()}}}}),
		"lines[2].raw{1}[0]":           bad(line{Raw: json.RawMessage(`{"z":1,"a":[1e999]}`)}),
		"Top.lines[0].price":           order{Top: &order{Lines: []*line{{Price: math.Inf(1)}}}},
		"Top{0}.lines[0].price":        order{Top: map[string]*order{"k": {Lines: []*line{{Price: math.Inf(1)}}}}},
		"{0}{0}":                       map[string]map[string]string{"a": {"b": "\x00"}},
		"Top[0].A":                     order{Top: []any{struct{ A func() }{}}},
		"Top.lines[2].meta{0}.In[].At": order{Top: bad(line{Meta: map[string]any{"k": struct{ In []struct{ At time.Time } }{}}})},
	} {
		_, err := Value(v, Limits{})
		var e *Error
		if !errors.As(err, &e) || len(e.Faults) != 1 || e.Faults[0].Path != want {
			t.Errorf("got %v, want path %s", err, want)
		}
	}
}

// A path is bounded, keeps its outer part and stays valid text wherever it is cut.
func TestPathsAreBounded(t *testing.T) {
	for pad := range 4 {
		path := join(strings.Repeat("x", pad), strings.Repeat("é", maxPath))
		if len(path) > maxPath || len(path) < maxPath-4 || !utf8.ValidString(path) || !strings.HasSuffix(path, "é…") {
			t.Errorf("path %s of %d bytes", path, len(path))
		}
	}
	type node struct {
		Next  *node `json:"next"`
		Price float64
	}
	list := &node{Price: math.NaN()}
	for range 200 {
		list = &node{Next: list}
	}
	_, err := Value(struct{ Root *node }{list}, Limits{})
	if path := err.(*Error).Faults[0].Path; len(path) > maxPath || !strings.HasPrefix(path, "Root.next.next.") {
		t.Errorf("path %s of %d bytes", path, len(path))
	}
}

// One call names everything that is wrong with a value, up to a bound.
func TestAllFaultsAreReportedUpToABound(t *testing.T) {
	type doc struct {
		A float64
		B string
		C int64
		D map[string]string
		E json.RawMessage
	}
	_, err := Value(doc{math.NaN(), "\xff", 1 << 60, map[string]string{"k": "\x00"}, json.RawMessage(`[1e999,{"a":1,"a":2}]`)}, Limits{})
	want := "A: not a finite number; B: not valid UTF-8; C: integer beyond ±(2^53−1): send it as a string; " +
		"D{0}: contains U+0000; E[0]: not a finite number; E[1]: two members share one name"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	many := slices.Repeat([]any{math.NaN(), make(chan int), json.Number("x"), map[string]string{"\xff": "\x00"}, json.RawMessage(`["\u0000","\u0000"]`)}, 100)
	for range 3 {
		for _, l := range []Limits{{}, {Bytes: 40}} {
			_, err := Value(many, l)
			if e := err.(*Error); len(e.Faults) == 0 || len(e.Faults) > MaxFaults {
				t.Errorf("%d faults with %+v", len(e.Faults), l)
			}
		}
		many = append([]any{many}, many...)
	}
	_, err = Raw([]byte("["+strings.Repeat(`{"a":1,"a":1},`, 100)+"1]"), Limits{})
	if e := err.(*Error); len(e.Faults) != MaxFaults {
		t.Errorf("%d faults of a hundred colliding names", len(e.Faults))
	}
	for _, limit := range []int{0, 14, 15, 16} { // at 15 the size and the last fault come together
		_, err := Value(slices.Repeat([]float64{math.NaN()}, 100), Limits{Bytes: limit})
		if e := err.(*Error); len(e.Faults) != MaxFaults {
			t.Errorf("%d faults of a hundred with limit %d", len(e.Faults), limit)
		}
	}
	var wide []reflect.StructField
	for i := range 40 {
		wide = append(wide, reflect.StructField{Name: "F" + strings.Repeat("x", i), Type: reflect.TypeFor[time.Time]()})
	}
	if e := Check(reflect.StructOf(wide)).(*Error); len(e.Faults) != MaxFaults {
		t.Errorf("%d faults of a type", len(e.Faults))
	}
}

// Check finds in a type all that Value would refuse of it, and nothing in a type that is sound.
func TestCheckJudgesATypeWithoutAValue(t *testing.T) {
	type inner struct {
		At   *time.Time         `json:"at,omitempty"`
		Blob []byte             `json:"blob"`
		Next *inner             `json:"next"`
		By   map[string][]inner `json:"by"`
	}
	type outer struct {
		In   [2]inner       `json:"in"`
		Keys map[int]string `json:"keys"`
		N    int            `json:"n,string"`
		F    func()         `json:"-"`
		G    map[string]func()
	}
	want := "n: " + ruleStringOption + "; G{}: a func has no JSON form; in[].at: " + ruleMarshals + "; in[].blob: " + ruleBytes + "; keys: " + ruleMapKey
	if err := Check(reflect.TypeFor[outer]()); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	for _, sound := range []any{Tree{}, Loop{}, &ring{}, pointer(nil), sliceRec{}, mapRec{}, json.Number(""), json.RawMessage{}, nil, errors.New("")} {
		if err := Check(reflect.TypeOf(sound)); err != nil {
			t.Errorf("%T: %v", sound, err)
		}
	}
	if err := Check(reflect.TypeFor[any]()); err != nil {
		t.Error(err)
	}
}

// No error repeats anything of the value: neither texts nor names nor numbers, whatever is wrong with it.
func TestErrorsHoldNothingOfTheValue(t *testing.T) {
	const secret = "s3cr3t"
	type named string
	for _, v := range []any{
		secret + "\x00", secret + "\xff", []string{secret + "\xff"}, map[string]string{secret: "\x00"}, map[named]float64{secret: math.NaN()},
		map[string]any{secret + "\x00": 1}, map[string]any{secret: map[string]any{secret: make(chan int)}},
		json.Number(secret), json.Number("7777777777777777777"), int64(7777777777777777777), uint64(7777777777777777777), 777777777777777777.0,
		json.RawMessage(secret), json.RawMessage(`{"` + secret + `":` + secret + `}`), json.RawMessage(`{"` + secret + `":1,"` + secret + `":2}`),
		json.RawMessage(`"` + secret + `\q"`), json.RawMessage(`{"` + secret + `":7777777777777777777}`), json.RawMessage(`["` + secret + `\ud800"]`),
		json.RawMessage(`{"` + secret + `":{"a":[1,2,` + secret), json.RawMessage(`7777777777777777777e999`), []byte(secret), time.Now(),
		map[string]any{secret: strings.Repeat(secret, 100)},
	} {
		_, err := Value(v, Limits{Bytes: 500, Depth: 3})
		if err == nil {
			t.Errorf("%T is accepted", v)
		} else if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "777") {
			t.Errorf("%T: the error repeats content: %v", v, err)
		}
	}
}

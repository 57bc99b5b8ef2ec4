package rules_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/consign-go/consign/internal/canon"
	"github.com/consign-go/consign/internal/rules"
)

type line struct {
	Code  string `json:"code" consign:"required,maxlen=3"`
	Price *int   `json:"price" consign:"min=1,max=10"`
}

type base struct {
	Author string `json:"author" consign:"minlen=2"`
}

type input struct {
	base
	Ticket string          `json:"ticket" consign:"required,maxlen=5"`
	State  string          `json:"state,omitempty" consign:"enum=open|closed"`
	Level  int8            `json:"level" consign:"enum=-1|0|7"`
	Score  float64         `json:"score" consign:"min=-0.5,max=1.5"`
	Count  uint            `json:"count,omitempty" consign:"required,max=9"`
	Rate   json.Number     `json:"rate" consign:"max=2"`
	Note   *string         `json:"note" consign:"nullable,minlen=1,maxlen=4"`
	Must   *string         `json:"must,omitempty" consign:"required"`
	Tags   []string        `json:"tags" consign:"required,maxlen=2"`
	Extra  map[string]line `json:"extra,omitempty" consign:"maxlen=2"`
	Lines  []line          `json:"lines,omitempty"`
	Any    any             `json:"any" consign:"nullable"`
	Raw    json.RawMessage `json:"raw,omitempty"`
	Next   *input          `json:"next,omitempty"`
}

func ptr[T any](v T) *T { return &v }

func good() input {
	return input{
		base: base{Author: "ab"}, Ticket: "ééééé", State: "open", Level: 7, Score: 1.5, Count: 9, Rate: "2", Note: ptr("abcd"),
		Must: ptr("x"), Tags: []string{"a", "b"}, Extra: map[string]line{"k": {"abc", ptr(10)}}, Lines: []line{{"a", ptr(1)}},
		Raw: json.RawMessage("{}"),
	}
}

func compiled(t *testing.T) *rules.Set {
	t.Helper()
	s, err := rules.Compile(reflect.TypeFor[input]())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEveryRuleHoldsUpToItsLimit(t *testing.T) {
	s := compiled(t)
	for name, c := range map[string]struct {
		set  func(in *input)
		want string // the whole list; empty: nothing is wrong
	}{
		"all at their limits":           {func(*input) {}, ""},
		"required text":                 {func(in *input) { in.Ticket = "" }, "ticket: is required"},
		"characters, not bytes":         {func(in *input) { in.Ticket = "éééééé" }, "ticket: 6 characters, limit 5"},
		"embedded":                      {func(in *input) { in.Author = "a" }, "author: 1 characters, limit at least 2"},
		"enum of texts":                 {func(in *input) { in.State = "odd" }, "state: is none of its declared values"},
		"left out is not too short":     {func(in *input) { in.State = "" }, ""},
		"enum of integers":              {func(in *input) { in.Level = 1 }, "level: is none of its declared values"},
		"range, above":                  {func(in *input) { in.Score = 1.6 }, "score: is out of range, limit -0.5 to 1.5"},
		"range, below":                  {func(in *input) { in.Score = -0.6 }, "score: is out of range, limit -0.5 to 1.5"},
		"range of a json.Number":        {func(in *input) { in.Rate = "2.1" }, "rate: is out of range, limit 2"},
		"required and left out":         {func(in *input) { in.Count = 0 }, "count: is required"},
		"required pointer left out":     {func(in *input) { in.Must = nil }, "must: is required"},
		"nullable":                      {func(in *input) { in.Note = nil }, ""},
		"behind a pointer":              {func(in *input) { in.Note = ptr("abcde") }, "note: 5 characters, limit 1 to 4"},
		"required list":                 {func(in *input) { in.Tags = []string{} }, "tags: is required"},
		"null list":                     {func(in *input) { in.Tags = nil }, "tags: is required"},
		"too many entries":              {func(in *input) { in.Tags = []string{"a", "b", "c"} }, "tags: 3 entries, limit 2"},
		"null in a list's struct":       {func(in *input) { in.Lines = []line{{"a", ptr(1)}, {"a", nil}} }, "lines[1].price: is null, and not declared nullable"},
		"out of range in a map":         {func(in *input) { in.Extra = map[string]line{"a": {"a", ptr(1)}, "b": {"a", ptr(11)}} }, "extra{1}.price: is out of range, limit 1 to 10"},
		"raw null":                      {func(in *input) { in.Raw = json.RawMessage(" null") }, "raw: is null, and not declared nullable"},
		"recursive":                     {func(in *input) { n := good(); n.Ticket = ""; in.Next = &n }, "next.ticket: is required"},
		"every fault, in names' order":  {func(in *input) { in.Ticket, in.Tags, in.Author = "", nil, "" }, "author: 0 characters, limit at least 2; tags: is required; ticket: is required"},
		"a nil interface that may be":   {func(in *input) { in.Any = nil }, ""},
		"an interface that holds a nil": {func(in *input) { in.Any = (*int)(nil) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := good()
			c.set(&in)
			var got []string
			for _, f := range s.Check(&in) {
				got = append(got, f.String())
			}
			if list := strings.Join(got, "; "); list != c.want {
				t.Errorf("got %q, want %q", list, c.want)
			}
		})
	}
}

func TestTagsThatCannotHoldAreRefused(t *testing.T) {
	type bad struct {
		A int     `json:"a" consign:"required"`
		B string  `json:"b" consign:"min=1"`
		C int     `json:"c" consign:"maxlen=1"`
		D string  `json:"d" consign:"minlen=3,maxlen=2"`
		E int     `json:"e" consign:"enum=1|x"`
		F bool    `json:"f" consign:"enum=true"`
		G string  `json:"g" consign:"nullable"`
		H string  `json:"h" consign:"maxlen=-1"`
		I float64 `json:"i" consign:"max=NaN"`
		J string  `json:"j" consign:"maxlen"`
		K string  `json:"k" consign:"requird"`
		L []struct {
			M int `consign:"min=x"`
		} `json:"l"`
		N int `json:"n" consign:"min=2,max=1"`
	}
	_, err := rules.Compile(reflect.TypeFor[bad]())
	var c *canon.Error
	if !errors.As(err, &c) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{
		"a: required cannot fail", "b: min is for numbers", "c: maxlen is for texts", "d: the lower limit is above", "e: enum has a value",
		"f: enum is for texts", "g: nullable is for", "h: maxlen needs", "i: max needs", `j: rule "maxlen"`, `k: rule "requird" is not known`,
		"l[].M: min needs", "n: the lower limit",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not among %v", want, err)
		}
	}
	if len(c.Faults) != 13 {
		t.Errorf("%d faults of 13: %v", len(c.Faults), err)
	}
}

func TestFaultsQuoteNoValue(t *testing.T) {
	in := good()
	in.Ticket, in.State, in.Level, in.Score, in.Extra = "SECRET", "SECRET", 99, 77777, map[string]line{"SECRET": {}}
	for _, f := range compiled(t).Check(&in) {
		for _, content := range []string{"SECRET", "99", "77777"} {
			if strings.Contains(f.String(), content) {
				t.Errorf("%q quotes the value", f)
			}
		}
	}
}

func TestTypesWithoutRulesCostNothing(t *testing.T) {
	type plain struct{ A, B string }
	s, err := rules.Compile(reflect.TypeFor[plain]())
	if s != nil || err != nil {
		t.Errorf("got %v, %v", s, err)
	}
	if f := s.Check(&plain{}); f != nil {
		t.Errorf("got %v", f)
	}
}

// Null is null, however it comes to be written.
func TestEveryNullIsFound(t *testing.T) {
	type nulls struct {
		Raw   json.RawMessage  `json:"raw"`
		Far   *json.RawMessage `json:"far"`
		Any   any              `json:"any"`
		Deep  any              `json:"deep"`
		Inner any              `json:"inner"`
	}
	s, err := rules.Compile(reflect.TypeFor[nulls]())
	if err != nil {
		t.Fatal(err)
	}
	var none *int
	in := nulls{Far: ptr(json.RawMessage("null ")), Any: none, Deep: &none, Inner: json.RawMessage(nil)}
	if form, err := canon.Object(in, canon.Limits{}); err != nil || strings.Count(string(form), "null") != 5 {
		t.Fatalf("%s, %v", form, err)
	}
	if got := s.Check(&in); len(got) != 5 {
		t.Errorf("%d of 5 nulls were found: %v", len(got), got)
	}
}

type shared struct {
	Code string `json:"code" consign:"required"`
}

type secretive struct {
	*secretive        // itself, as a type may
	inside     string `consign:"required"`
}

// An embedded struct that has a name in its tag is a member like any other.
func TestEmbeddedUnderANameIsChecked(t *testing.T) {
	type outer struct {
		shared `json:"shared"`
		Note   string `json:"note" consign:"maxlen=3"`
	}
	s, err := rules.Compile(reflect.TypeFor[outer]())
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Check(&outer{Note: "abc"}); len(got) != 1 || got[0].String() != "shared.code: is required" {
		t.Errorf("got %v", got)
	}
	if got := s.Check(&outer{shared: shared{"x"}}); got != nil {
		t.Errorf("got %v", got)
	}
}

// Rules that would never be looked at are refused: their author counts on them.
func TestRulesOfWhatIsNotWrittenAreRefused(t *testing.T) {
	type bad struct {
		shared  `consign:"required"`
		private string `consign:"required"`
		Hidden  string `json:"-" consign:"maxlen=3"`
		Dash    string `json:"-," consign:"maxlen=3"`
		secretive
	}
	_, err := rules.Compile(reflect.TypeFor[bad]())
	var c *canon.Error
	if !errors.As(err, &c) || len(c.Faults) != 4 {
		t.Fatalf("got %v, want four faults", err)
	}
	for i, want := range []string{"shared: has rules, which belong", "private: has rules and is not written", "Hidden: has rules and is not written", "inside: has rules and is not written"} {
		if !strings.HasPrefix(c.Faults[i].String(), want) {
			t.Errorf("fault %d is %s, want %s", i, c.Faults[i], want)
		}
	}
}

// What json.Unmarshal can never read back is found before it is stored.
func TestTypesThatCannotBeReadBackAreRefused(t *testing.T) {
	type inner struct {
		*shared
	}
	type bad struct {
		*shared `json:"shared"`
		List    []inner                 `json:"list"`
		Shape   interface{ Area() int } `json:"shape"`
		Map     map[string]error        `json:"map"`
	}
	_, err := rules.Compile(reflect.TypeFor[bad]())
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{
		"shared: cannot be read back: it is embedded", "list[].code: cannot be read back: it is embedded",
		"shape: cannot be read back: an interface", "map{}: cannot be read back: an interface",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not among %v", want, err)
		}
	}
}

// A cyclic value ends; that it has no canonical form is found where it is written.
func TestCyclicValuesEnd(t *testing.T) {
	in := good()
	in.Next = &in
	compiled(t).Check(&in)
}

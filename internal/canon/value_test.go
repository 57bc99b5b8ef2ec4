package canon

import (
	"encoding/json"
	"math/big"
	"net"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"
)

// Types that spell themselves, on the value and on the pointer, as JSON and as text.
type (
	jsonByValue   struct{ A int }
	jsonByPointer struct{ A int }
	textByValue   string
	textByPointer struct{ A int }
	embedsTime    struct {
		time.Time
		A int
	}
	// A field hides the embedded method, so encoding/json would look inside and write {"A":…}.
	hidesMethod struct {
		jsonByValue
		namesake
	}
	namesake   struct{ MarshalJSON int }
	zeroStruct struct{ N int }
)

func (*zeroStruct) IsZero() bool                    { return true }
func (jsonByValue) MarshalJSON() ([]byte, error)    { return []byte("1"), nil }
func (*jsonByPointer) MarshalJSON() ([]byte, error) { return []byte("1"), nil }
func (textByValue) MarshalText() ([]byte, error)    { return []byte("x"), nil }
func (*textByPointer) MarshalText() ([]byte, error) { return []byte("x"), nil }

// A digest must not depend on how a type likes to spell itself, or on a type that has no JSON form: such types are refused
// with advice, before any value of them exists.
func TestTypesWithoutAWireValueAreRefused(t *testing.T) {
	type bytesNamed []byte
	type octet uint8
	for _, c := range []struct {
		v    any
		rule string
	}{
		{time.Time{}, ruleMarshals}, {&time.Time{}, ruleMarshals}, {(*time.Time)(nil), ruleMarshals},
		{big.Int{}, ruleMarshals}, {big.NewInt(1), ruleMarshals}, {new(big.Float), ruleMarshals}, {new(big.Rat), ruleMarshals},
		{netip.Addr{}, ruleMarshals}, {net.IP{}, ruleMarshals},
		{jsonByValue{}, ruleMarshals}, {&jsonByValue{}, ruleMarshals}, {jsonByPointer{}, ruleMarshals}, {&jsonByPointer{}, ruleMarshals},
		{textByValue(""), ruleMarshals}, {textByPointer{}, ruleMarshals}, {embedsTime{}, ruleMarshals}, {hidesMethod{}, ruleMarshals},
		{[]time.Time{}, ruleMarshals}, {[0]time.Time{}, ruleMarshals}, {map[string]*big.Int{}, ruleMarshals},
		{struct{ json.RawMessage }{}, ruleMarshals},
		{struct {
			At *time.Time `json:"at,omitzero"`
		}{}, ruleMarshals},
		{[]byte{}, ruleBytes}, {bytesNamed{}, ruleBytes}, {[]octet{}, ruleBytes}, {[][]byte{}, ruleBytes},
		{map[int]string{}, ruleMapKey}, {map[any]string{}, ruleMapKey}, {map[bool]string{}, ruleMapKey},
		{map[[1]string]string{}, ruleMapKey}, {map[textByValue]int{}, ruleMapKey},
		{make(chan int), "a chan has no JSON form"}, {func() {}, "a func has no JSON form"},
		{complex64(1), "a complex64 has no JSON form"}, {1i, "a complex128 has no JSON form"},
		{uintptr(1), "a uintptr has no JSON form"}, {unsafe.Pointer(nil), "a unsafe.Pointer has no JSON form"},
		{(func())(nil), "a func has no JSON form"}, {struct{ C chan int }{}, "a chan has no JSON form"},
		{struct {
			N int `json:",string"`
		}{}, ruleStringOption},
		{struct {
			N []int `json:"n,omitempty,string"`
		}{}, ruleStringOption},
		{struct {
			zeroStruct `json:"z,omitzero"`
		}{}, ruleOmitZero},
		{struct {
			*zeroStruct `json:"z,omitzero"`
		}{}, ruleOmitZero},
	} {
		name := reflect.TypeOf(c.v).String()
		_, err := Value(c.v, Limits{})
		checkRule(t, name, err, c.rule)
		_, err = Value(map[string]any{"k": []any{c.v}}, Limits{})
		checkRule(t, "inside an interface: "+name, err, c.rule)
		checkRule(t, "Check "+name, Check(reflect.TypeOf(c.v)), c.rule)
	}
	if !strings.Contains(ruleMarshals, "wire value") || !strings.Contains(ruleBytes, "base64") {
		t.Error("the refusal must say what to do instead")
	}
}

// Raw JSON and number text are data, not types that spell themselves, and are accepted under their two names only.
func TestRawMessageAndNumberAreData(t *testing.T) {
	raw, number := json.RawMessage(`{"b":1,"a":[ ]}`), json.Number("1.50")
	type doc struct {
		Raw     json.RawMessage            `json:"raw"`
		Pointer *json.RawMessage           `json:"pointer"`
		Nil     json.RawMessage            `json:"nil"`
		Map     map[string]json.RawMessage `json:"map"`
		List    []json.RawMessage          `json:"list"`
		Any     any                        `json:"any"`
		Self    json.Marshaler             `json:"self"`
		Number  json.Number                `json:"number"`
		Numbers []*json.Number             `json:"numbers"`
	}
	got, err := Value(doc{
		raw, &raw, nil, map[string]json.RawMessage{"k": raw}, []json.RawMessage{raw, nil}, raw, raw, number, []*json.Number{&number, nil},
	}, Limits{})
	const r = `{"a":[],"b":1}`
	want := `{"any":` + r + `,"list":[` + r + `,null],"map":{"k":` + r + `},"nil":null,"number":1.5,"numbers":[1.5,null],"pointer":` +
		r + `,"raw":` + r + `,"self":` + r + `}`
	if err != nil || string(got) != want {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
	if _, err := Value(doc{Raw: json.RawMessage{}, Number: "1"}, Limits{}); err == nil {
		t.Error("an empty RawMessage that is not nil holds no JSON")
	}
	if _, err := Value(doc{Self: jsonByValue{}, Number: "1"}, Limits{}); err == nil {
		t.Error("what an interface holds must be looked at")
	}
}

// The root of a request is an object, however it is given.
func TestObjectRefusesAnyOtherRoot(t *testing.T) {
	object := json.RawMessage(` { "a" : 1 } `)
	for _, v := range []any{
		object, &object, map[string]int{"a": 1}, map[string]any{"a": 1}, struct {
			A int `json:"a"`
		}{1}, &map[string]int{"a": 1},
	} {
		if got, err := Object(v, Limits{Bytes: 7, Depth: 1}); err != nil || string(got) != `{"a":1}` {
			t.Errorf("%T: got %s, %v", v, got, err)
		}
	}
	for _, v := range []any{
		nil, 1, "s", true, []any{}, [1]int{}, json.RawMessage(nil), json.RawMessage("[]"), json.RawMessage(`"{}"`), json.Number("1"),
		map[string]any(nil), map[string]int(nil), (*struct{})(nil),
	} {
		_, err := Object(v, Limits{})
		checkRule(t, "root", err, ruleObject)
	}
	_, err := Object([]byte(`{}`), Limits{})
	checkRule(t, "[]byte", err, ruleBytes)
}

// Keys of named string types are their strings; the values of a map may be of any accepted type.
func TestMapsOfEveryShapeAreOrderedByKey(t *testing.T) {
	type key string
	type named map[string]any
	one := 1
	for _, v := range []any{
		map[string]any{"b": 1, "a": "x", "": nil}, named{"b": 1, "a": "x", "": nil}, map[key]any{"b": 1, "a": "x", "": nil},
		map[string]*any{"b": box(1), "a": box("x"), "": nil}, &named{"b": &one, "a": "x", "": []int(nil)},
	} {
		if got, err := Value(v, Limits{}); err != nil || string(got) != `{"":null,"a":"x","b":1}` {
			t.Errorf("%T: got %s, %v", v, got, err)
		}
	}
	for _, v := range []any{map[string]any(nil), map[string]string(nil), named(nil), map[key]int(nil), []any(nil), []string(nil)} {
		if got, err := Value(v, Limits{}); err != nil || string(got) != "null" {
			t.Errorf("%T: got %s, %v", v, got, err)
		}
	}
	for _, v := range []any{
		map[string]string{"\ufb33": "2", "😀": "1"}, map[key]string{"\ufb33": "2", "😀": "1"}, map[string]any{"\ufb33": "2", "😀": "1"},
	} {
		if got, err := Value(v, Limits{}); err != nil || string(got) != "{\"😀\":\"1\",\"\ufb33\":\"2\"}" {
			t.Errorf("%T: got %s, %v", v, got, err)
		}
	}
	nested := map[string]map[string][]map[key]int8{"z": {"y": {{"b": 2, "a": 1}, nil}, "x": nil}, "a": nil}
	if got, err := Value(nested, Limits{}); err != nil || string(got) != `{"a":null,"z":{"x":null,"y":[{"a":1,"b":2},null]}}` {
		t.Errorf("got %s, %v", got, err)
	}
}

func box(v any) *any { return &v }

// The digest is SHA-256 (FIPS 180-4) of the canonical bytes.
func TestDigestIsSHA256OfTheBytes(t *testing.T) {
	const abc = "\xba\x78\x16\xbf\x8f\x01\xcf\xea\x41\x41\x40\xde\x5d\xae\x22\x23\xb0\x03\x61\xa3\x96\x17\x7a\x9c\xb4\x10\xff\x61\xf2\x00\x15\xad"
	if d := Digest([]byte("abc")); string(d[:]) != abc {
		t.Errorf("got %x", d)
	}
}

package canon

import (
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// waysIn returns a JSON text as every kind of input that leads to the same canonical form.
func waysIn(t *testing.T, text string) map[string]func(Limits) ([]byte, error) {
	t.Helper()
	var decoded any
	if err := json.Unmarshal([]byte(text), &decoded); err != nil {
		t.Fatal(err)
	}
	return map[string]func(Limits) ([]byte, error){
		"Raw":                   func(l Limits) ([]byte, error) { return Raw([]byte(text), l) },
		"Value of RawMessage":   func(l Limits) ([]byte, error) { return Value(json.RawMessage(text), l) },
		"Value of decoded JSON": func(l Limits) ([]byte, error) { return Value(decoded, l) },
		"Value of a pointer":    func(l Limits) ([]byte, error) { return Value(&decoded, l) },
	}
}

// The size limit is inclusive and counts the canonical bytes, not the bytes that were handed in.
func TestSizeLimitIsInclusiveAndOnCanonicalBytes(t *testing.T) {
	for _, text := range []string{
		`null`, `12345`, `-0.10`, `"abc"`, `"\u0041\u0042\u0043\n\u00e9"`, `[ ]`, `{ }`, ` [ 1 , 2 , "x" ] `,
		`{"b": {"d": [1.50, true], "c": "\t"}, "a": null}`, `[[[[]]]]`, `{"a":"` + strings.Repeat("x", 5000) + `"}`, `1e21`,
	} {
		for way, canonical := range waysIn(t, text) {
			want, err := canonical(Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := canonical(Limits{Bytes: len(want)}); err != nil || string(got) != string(want) {
				t.Errorf("%s of %.40s: at the limit of %d bytes: %v", way, text, len(want), err)
			}
			_, err = canonical(Limits{Bytes: len(want) - 1})
			checkRule(t, way+" of "+text, err, ruleBytesLimit(len(want)-1))
			if e := err.(*Error); e.Faults[0].Path != "" {
				t.Errorf("%s of %.40s: the size is that of the root, not of %s", way, text, e.Faults[0].Path)
			}
		}
	}
}

// The depth limit is inclusive; the root object is depth 1, and arrays count.
func TestDepthLimitIsInclusive(t *testing.T) {
	for text, depth := range map[string]int{
		`{}`: 1, `[]`: 1, `{"a":1}`: 1, `{"a":{}}`: 2, `{"a":[]}`: 2, `[[],[[]],[]]`: 3, `{"a":{"b":{"c":{}}},"d":{}}`: 4,
		`{"a":[{"b":[{"c":[{"d":[0]}]}]}]}`: 8,
	} {
		for way, canonical := range waysIn(t, text) {
			if _, err := canonical(Limits{Depth: depth}); err != nil {
				t.Errorf("%s of %s: depth %d: %v", way, text, depth, err)
			}
			if depth > 1 {
				_, err := canonical(Limits{Depth: depth - 1})
				checkRule(t, way+" of "+text, err, ruleDepthLimit(depth-1))
			}
		}
	}
	type node struct{ Next *node }
	if _, err := Value(node{&node{&node{}}}, Limits{Depth: 3}); err != nil {
		t.Error(err)
	}
	_, err := Value(node{&node{&node{}}}, Limits{Depth: 2})
	checkRule(t, "structs", err, ruleDepthLimit(2))
	// Raw JSON inside a value counts from where it stands.
	inner := map[string]any{"a": json.RawMessage(`{"b":[]}`)}
	if _, err := Value(inner, Limits{Depth: 3}); err != nil {
		t.Error(err)
	}
	_, err = Value(inner, Limits{Depth: 2})
	checkRule(t, "raw inside", err, ruleDepthLimit(2))
}

// MaxDepth holds whatever the caller allows, so that neither hostile text nor a cycle can use up the stack.
func TestDepthHasACeiling(t *testing.T) {
	for _, l := range []Limits{{}, {Depth: MaxDepth}, {Depth: 1 << 40}, {Depth: -1, Bytes: -1}} {
		for _, c := range [][2]string{{"[", "]"}, {`{"a":`, `}`}} {
			for way, canonical := range waysIn(t, strings.Repeat(c[0], MaxDepth-1)+"[]"+strings.Repeat(c[1], MaxDepth-1)) {
				if _, err := canonical(l); err != nil {
					t.Errorf("%s: %d levels: %v", way, MaxDepth, err)
				}
			}
			for way, canonical := range waysIn(t, strings.Repeat(c[0], MaxDepth)+"[]"+strings.Repeat(c[1], MaxDepth)) {
				_, err := canonical(l)
				checkRule(t, way, err, ruleDepthLimit(MaxDepth))
			}
		}
	}
	_, err := Raw([]byte(strings.Repeat("[", 10_000_000)), Limits{})
	checkRule(t, "ten million brackets", err, ruleDepthLimit(MaxDepth))
}

type (
	ring     struct{ A, B *ring }
	pointer  *pointer
	sliceRec []sliceRec
	mapRec   map[string]mapRec
)

// A value that contains itself ends in an error, with a depth limit or without, however many ways lead round.
func TestCyclicValuesEndInAnError(t *testing.T) {
	r := &ring{}
	r.A, r.B = r, r
	m := map[string]any{}
	m["a"], m["b"] = m, m
	s := make([]any, 3)
	s[0], s[1], s[2] = s, s, s
	var p pointer
	p = &p
	var boxed any
	boxed = &boxed
	sr := sliceRec{nil}
	sr[0] = sr
	mr := mapRec{}
	mr["k"] = mr
	pm := map[string]*map[string]any{}
	pm["a"] = &m
	for _, v := range []any{r, *r, m, s, p, &p, boxed, sr, mr, pm, struct{ In any }{r}} {
		for _, l := range []Limits{{}, {Depth: 8}, {Bytes: 1 << 20}} {
			_, err := Value(v, l)
			e, ok := err.(*Error)
			if !ok || len(e.Faults) != 1 || !strings.Contains(e.Error(), "nested deeper than") && !strings.Contains(e.Error(), "cyclic") {
				t.Errorf("%T with %+v: %v", v, l, err)
			} else if len(e.Faults[0].Path) > maxPath {
				t.Errorf("%T: a path of %d bytes", v, len(e.Faults[0].Path))
			}
		}
	}
	// The same value in many places is no cycle, and many pointers side by side are no chain.
	if _, err := Value(make([]**int, 3*MaxDepth), Limits{}); err != nil {
		t.Error(err)
	}
	one := new(int)
	if _, err := Value(slices.Repeat([]*int{one}, 3*MaxDepth), Limits{}); err != nil {
		t.Error(err)
	}
	shared := &ring{}
	if got, err := Value([]*ring{shared, shared}, Limits{}); err != nil || string(got) != `[{"A":null,"B":null},{"A":null,"B":null}]` {
		t.Errorf("got %s, %v", got, err)
	}
}

// A far too large value is refused without being written out: memory stays near the limit, not near the value.
func TestOversizedInputIsNotBuffered(t *testing.T) {
	var bomb any = "x"
	for range 40 { // 3^40 strings if it were written out
		bomb = []any{bomb, map[string]any{"k": bomb}, bomb}
	}
	const limit = 4096
	long := strings.Repeat("x", 16<<20)
	for name, v := range map[string]any{
		"a bomb":       bomb,
		"a string":     map[string]any{"k": long},
		"a name":       map[string]int{long: 1},
		"a slice":      make([]int64, 8<<20),
		"an array":     new([1 << 20]bool),
		"raw":          json.RawMessage(`["` + long + `"]`),
		"raw numbers":  json.RawMessage("[" + strings.Repeat("0,", 8<<20) + "0]"),
		"raw escapes":  json.RawMessage(`"` + strings.Repeat(`\n`, 8<<20) + `"`),
		"raw name":     json.RawMessage(`{"` + long + `":1}`),
		"escaped name": json.RawMessage(`{"\n` + long + `":1}`),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Value(v, Limits{Bytes: limit, Depth: 100})
		runtime.ReadMemStats(&after)
		checkRule(t, name, err, ruleBytesLimit(limit))
		if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
			t.Errorf("%s: %d bytes allocated under a limit of %d", name, used, limit)
		}
	}
}

// Between calls the pool holds room but nothing of what was written, however a walk ended, and no huge room.
func TestPooledMemoryForgetsTheCaller(t *testing.T) {
	const secret = "secret"
	raw := json.RawMessage(`{"b":{"y":1,"` + secret + `\n":2,"a":"\n"},"a":{"k":1}}`)
	whole := map[string]any{secret: map[string]int{"b": 1, "a": 2}, "raw": raw, "list": []any{map[string]string{secret: secret}}}
	for name, v := range map[string]any{
		"whole":     whole,
		"faulty":    map[string]any{secret: math.NaN(), "raw": raw},
		"broken":    map[string]any{secret: map[string]any{secret: json.RawMessage(`{"a":{"\n":1,` + secret)}},
		"too large": []any{whole, strings.Repeat("x", 2000)},
	} {
		e := newEncoder(Limits{Bytes: 1000})
		e.value(v)
		if name == "whole" && len(e.names)+len(e.members)+len(e.arena)+e.depth+e.pointers != 0 {
			t.Errorf("a finished walk left something open: %+v", e)
		}
		e.release()
		for _, n := range e.names[:cap(e.names)] {
			if n != "" {
				t.Errorf("%s: the pool keeps the name %s", name, n)
			}
		}
		for _, m := range e.members[:cap(e.members)] {
			if m.key != nil {
				t.Errorf("%s: the pool keeps the name %s", name, m.key)
			}
		}
		if len(e.buf)+len(e.faults)+len(e.names)+len(e.members)+len(e.arena)+e.depth != 0 || e.tooLarge {
			t.Errorf("%s: not at rest: %+v", name, e)
		}
	}
	e := newEncoder(Limits{})
	e.value(strings.Repeat("x", keepCapacity+1))
	if e.release(); cap(e.buf) > keepCapacity {
		t.Errorf("the pool keeps %d bytes", cap(e.buf))
	}
}

// Results are the caller's own, whoever else is at work: encoders are pooled and plans are shared.
func TestConcurrentCallsDoNotShareMemory(t *testing.T) {
	type doc struct {
		N    int               `json:"n"`
		Text string            `json:"text"`
		More map[string]string `json:"more"`
		Raw  json.RawMessage   `json:"raw"`
	}
	const workers, rounds = 8, 200
	done := make(chan error, workers)
	for w := range workers {
		go func() {
			var kept [rounds][]byte
			var want [rounds]string
			for i := range rounds {
				k := fmt.Sprint("k", w, i)
				v := doc{w*rounds + i, strings.Repeat(k, i%40), map[string]string{k: "v", "a": k}, json.RawMessage(`{"z":"\u0061","` + k + `":[]}`)}
				want[i] = fmt.Sprintf(`{"more":{"a":%q,%q:"v"},"n":%d,"raw":{%q:[],"z":"a"},"text":%q}`, k, k, v.N, k, v.Text)
				var err error
				if kept[i], err = Value(v, Limits{}); err != nil {
					done <- err
					return
				}
				Value([]any{"left\xff", v, make(chan int)}, Limits{Bytes: 64})
			}
			for i := range rounds {
				if string(kept[i]) != want[i] {
					done <- fmt.Errorf("got %s, want %s", kept[i], want[i])
					return
				}
			}
			done <- nil
		}()
	}
	for range workers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

package canon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

type benchLine struct {
	SKU      string   `json:"sku"`
	Title    string   `json:"title"`
	Quantity int      `json:"quantity"`
	Price    float64  `json:"price"`
	Tags     []string `json:"tags"`
	Gift     bool     `json:"gift"`
	Note     *string  `json:"note,omitempty"`
}

type benchOrder struct {
	Ref      string            `json:"ref"`
	Customer string            `json:"customer"`
	Placed   string            `json:"placed"`
	Total    float64           `json:"total"`
	Labels   map[string]string `json:"labels"`
	Lines    []benchLine       `json:"lines"`
}

// fourKilobytes is a request of about 4 kB, the limit of a work payload.
func fourKilobytes() benchOrder {
	o := benchOrder{
		Ref: "0197a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b", Customer: "Zoë Ångström", Placed: "2026-03-04T05:06:07Z", Total: 4321.99,
		Labels: map[string]string{"region": "eu-north", "channel": "web", "priority": "normal", "campaign": "spring"},
	}
	for i := range 24 {
		o.Lines = append(o.Lines, benchLine{
			SKU: fmt.Sprintf("SKU-%05d", i*7919), Title: "A sturdy \"garden\" chair, oak and linen", Quantity: i + 1,
			Price: 19.95 * float64(i+1), Tags: []string{"garden", "oak", "outdoor"}, Gift: i%3 == 0,
		})
	}
	return o
}

// BenchmarkAgainstEncodingJSON runs both sides in turns and compares the fastest turn of each, so that a busy machine
// matters little. "ratio" is the time taken here divided by the time encoding/json takes; the promise is at most 3.
func BenchmarkAgainstEncodingJSON(b *testing.B) {
	order := fourKilobytes()
	source, err := json.Marshal(order)
	if err != nil {
		b.Fatal(err)
	}
	var decoded any
	if err := json.Unmarshal(source, &decoded); err != nil {
		b.Fatal(err)
	}
	canonical, err := Raw(source, Limits{})
	if err != nil {
		b.Fatal(err)
	}
	value := func(v any) func() error {
		return func() error { _, err := Object(v, Limits{Bytes: 1 << 20, Depth: 8}); return err }
	}
	marshal := func(v any) func() error { return func() error { _, err := json.Marshal(v); return err } }
	raw := func(text []byte) func() error {
		return func() error { _, err := Raw(text, Limits{Bytes: 1 << 20, Depth: 8}); return err }
	}
	var compacted bytes.Buffer
	compact := func() error { compacted.Reset(); return json.Compact(&compacted, source) }
	rewrite := func() error {
		var v any
		if err := json.Unmarshal(source, &v); err != nil {
			return err
		}
		_, err := json.Marshal(v)
		return err
	}
	for _, c := range []struct {
		name         string
		ours, theirs func() error
	}{
		{"Value/struct/Marshal", value(order), marshal(order)},
		{"Value/decoded/Marshal", value(decoded), marshal(decoded)},
		{"Raw/unordered/Compact", raw(source), compact},
		{"Raw/ordered/Compact", raw(canonical), compact},
		{"Raw/unordered/UnmarshalMarshal", raw(source), rewrite},
	} {
		b.Run(c.name, func(b *testing.B) {
			ours, theirs := time.Hour, time.Hour
			for b.Loop() {
				ours = min(ours, timed(b, c.ours))
				theirs = min(theirs, timed(b, c.theirs))
			}
			b.ReportMetric(float64(ours)/float64(theirs), "ratio")
			b.ReportMetric(float64(ours)/batch, "ns/canonical")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// batch is how often one side runs before the other has its turn.
const batch = 20

func timed(b *testing.B, f func() error) time.Duration {
	start := time.Now()
	for range batch {
		if err := f(); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(start)
}

// BenchmarkCanonical shows allocations, which the comparison above cannot tell apart.
func BenchmarkCanonical(b *testing.B) {
	order := fourKilobytes()
	source, err := json.Marshal(order)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("Value", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Value(order, Limits{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Raw", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(source)))
		for b.Loop() {
			if _, err := Raw(source, Limits{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

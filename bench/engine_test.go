package bench

import (
	"strconv"
	"testing"

	"github.com/consign-go/consign/internal/canon"
)

// BenchmarkEngine is what the engine spends on one piece of work beside its store:
// processor time, memory and allocations, the work of P1's handler included.
func BenchmarkEngine(b *testing.B) {
	b.ReportAllocs()
	spent, err := engineSpends(b.Context(), Config{}.Filled(), b.N)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(spent.Client*1e9/float64(b.N), "cpu-ns/op")
}

// BenchmarkHandler is the part of BenchmarkEngine that is the handler's.
func BenchmarkHandler(b *testing.B) {
	for _, size := range []int{100, 1500} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			row, err := newWork(1, size)
			if err != nil {
				b.Fatal(err)
			}
			a := newAuthority()
			b.ReportAllocs()
			for b.Loop() {
				body, err := a.request(&row.Intent)
				if err != nil {
					b.Fatal(err)
				}
				canon.Digest(body)
			}
		})
	}
}

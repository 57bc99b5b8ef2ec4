package bench

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Distribution is how long something took, in milliseconds.
type Distribution struct {
	Count     int        `json:"count"`
	Quantiles []Quantile `json:"quantiles"` // ascending in Q: 0, 0.05 … 0.95, then 0.99, 0.999, 0.9999, 1
}

// Quantile is the least time that the share Q of all did not exceed.
type Quantile struct {
	Q  float64 `json:"q"`
	Ms float64 `json:"ms"`
}

// newDistribution sorts took. Without any there is no distribution.
func newDistribution(took []time.Duration) *Distribution {
	if len(took) == 0 {
		return nil
	}
	slices.Sort(took)
	d := &Distribution{Count: len(took)}
	add := func(q float64) {
		rank := max(1, int(math.Ceil(q*float64(len(took))-1e-9)))
		d.Quantiles = append(d.Quantiles, Quantile{q, float64(took[rank-1].Nanoseconds()) / 1e6})
	}
	for twentieth := range 20 {
		add(float64(twentieth) / 20)
	}
	for _, q := range []float64{0.99, 0.999, 0.9999, 1} {
		add(q)
	}
	return d
}

// at is the quantile q, one of those that are kept; otherwise it is not a number.
func (d *Distribution) at(q float64) float64 {
	if d != nil {
		for _, x := range d.Quantiles {
			if x.Q == q {
				return x.Ms
			}
		}
	}
	return math.NaN()
}

// String shows what most had, nearly all, and all.
func (d *Distribution) String() string {
	return fmt.Sprintf("half within %.2f ms, 99 of 100 %.2f ms, all %.2f ms", d.at(0.5), d.at(0.99), d.at(1))
}

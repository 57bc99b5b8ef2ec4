package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Depth is how much there is of everything, as of one look at the database.
type Depth struct {
	Groups       []Group
	OldestDue    time.Duration // how long the oldest due intent has been due; 0: nothing is
	Review       int
	OldestReview time.Duration
}

// Group is a number of intents. Where there are more than were counted, it is capped.
type Group struct {
	Profile, Kind, Status string
	N                     int
	Capped                bool
}

// mostKinds is how many kinds have a label of their own among what is stored: anybody
// who may enqueue can make up names of channels.
const mostKinds = 100

// depth shows the newest look at the database. It is taken at the daemon's own pace
// and not with each scrape, so that many scrapers cost the database nothing.
type depth struct {
	mu   sync.Mutex
	last *Depth // nil: none yet, or it is too old

	intents, capped, due, review, oldestReview *prometheus.Desc
}

func (d *depth) register(r *prometheus.Registry) {
	d.intents = prometheus.NewDesc("consign_intents", "Intents in the database.", []string{"profile", "kind", "status"}, nil)
	d.capped = prometheus.NewDesc("consign_intents_capped", "1 where consign_intents counted no further.", []string{"profile", "kind", "status"}, nil)
	d.due = prometheus.NewDesc("consign_oldest_due_age_seconds", "How long the oldest due intent has been due.", nil, nil)
	d.review = prometheus.NewDesc("consign_review", "Intents that wait for a person.", nil, nil)
	d.oldestReview = prometheus.NewDesc("consign_oldest_review_age_seconds", "How long the oldest of them has waited.", nil, nil)
	r.MustRegister(d)
}

// Describe names the metrics.
func (d *depth) Describe(ch chan<- *prometheus.Desc) {
	for _, one := range []*prometheus.Desc{d.intents, d.capped, d.due, d.review, d.oldestReview} {
		ch <- one
	}
}

// Collect shows the newest look.
func (d *depth) Collect(ch chan<- prometheus.Metric) {
	d.mu.Lock()
	last := d.last
	d.mu.Unlock()
	if last == nil {
		return
	}
	gauge := func(desc *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
	}
	for _, g := range bounded(last.Groups) {
		gauge(d.intents, float64(g.N), g.Profile, g.Kind, g.Status)
		capped := 0.0
		if g.Capped {
			capped = 1
		}
		gauge(d.capped, capped, g.Profile, g.Kind, g.Status)
	}
	gauge(d.due, last.OldestDue.Seconds())
	gauge(d.review, float64(last.Review))
	gauge(d.oldestReview, last.OldestReview.Seconds())
}

// bounded puts what is beyond the first kinds together as other.
func bounded(groups []Group) []Group {
	type labels struct{ profile, kind, status string }
	kinds, at := map[string]bool{}, map[labels]int{}
	var out []Group
	for _, g := range groups {
		if !kinds[g.Kind] && len(kinds) == mostKinds {
			g.Kind = Other
		} else {
			kinds[g.Kind] = true
		}
		key := labels{g.Profile, g.Kind, g.Status}
		i, there := at[key]
		if !there {
			at[key] = len(out)
			out = append(out, g)
			continue
		}
		out[i].N += g.N
		out[i].Capped = out[i].Capped || g.Capped
	}
	return out
}

// SetDepth shows a look at the database from now on; nil: it could not be looked at,
// and an old answer is worse than none.
func (m *Metrics) SetDepth(d *Depth) {
	m.depth.mu.Lock()
	defer m.depth.mu.Unlock()
	m.depth.last = d
}

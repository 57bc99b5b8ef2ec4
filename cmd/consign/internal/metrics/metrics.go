// Package metrics turns what the engine does into Prometheus metrics. Labels are
// bounded: statuses and outcomes are closed sets, and a kind that this program does
// not declare counts as "other". No label and no value is content.
package metrics

import (
	"net/http"
	"runtime"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/consign-go/consign"
)

// Other is the kind of what this program does not declare.
const Other = "other"

// Metrics are the daemon's.
type Metrics struct {
	registry *prometheus.Registry
	kinds    atomic.Pointer[map[string]bool]

	claims        prometheus.Counter
	claimed       prometheus.Counter
	claimSeconds  prometheus.Histogram
	starts        *prometheus.CounterVec
	retries       *prometheus.CounterVec
	startSeconds  prometheus.Histogram
	outcomes      *prometheus.CounterVec
	ended         *prometheus.CounterVec
	effectSeconds *prometheus.HistogramVec
	settleSeconds prometheus.Histogram
	fenced        *prometheus.CounterVec
	swept         prometheus.Counter
	storeErrors   prometheus.Counter
	hints         prometheus.Gauge
	reloads       *prometheus.CounterVec

	depth depth
}

// writes are the buckets for writes to the database, effects those for calls of a
// receiver. In seconds.
var (
	writes  = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	effects = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
)

// New returns metrics for a program of a version.
func New(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.kinds.Store(&map[string]bool{})
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		m.registry.MustRegister(c)
		return c
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		m.registry.MustRegister(c)
		return c
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
		m.registry.MustRegister(h)
		return h
	}
	m.claims = counter("consign_claims_total", "Claims that found something.")
	m.claimed = counter("consign_claimed_total", "Intents that were claimed.")
	m.claimSeconds = histogram("consign_claim_duration_seconds", "How long a claim took that found something.", writes)
	m.starts = counters("consign_starts_total", "Attempts that were started.", "kind")
	m.retries = counters("consign_retries_total", "Attempts that were started and are not the first.", "kind")
	m.startSeconds = histogram("consign_start_duration_seconds", "From the wish to start an attempt until its start was durable.", writes)
	m.outcomes = counters("consign_outcomes_total", "What became of attempts, and of intents that were stopped before one.", "kind", "outcome")
	m.ended = counters("consign_ended_total", "Deliveries that ended, by their last status.", "kind", "status")
	m.effectSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "consign_effect_duration_seconds", Help: "How long the call of the receiver took.", Buckets: effects}, []string{"kind"})
	m.registry.MustRegister(m.effectSeconds)
	m.settleSeconds = histogram("consign_settle_duration_seconds", "From the end of an effect until its outcome was durable.", writes)
	m.fenced = counters("consign_fenced_total", "Writes that were refused because somebody else holds the intent by now.", "kind")
	m.swept = counter("consign_swept_total", "Intents that the sweep ended: deadlines, crashes, kinds that nobody serves.")
	m.storeErrors = counter("consign_store_errors_total", "Calls of the database that failed.")
	m.hints = prometheus.NewGauge(prometheus.GaugeOpts{Name: "consign_hints_heard", Help: "1 while wake-ups of other programs are seen to arrive."})
	m.registry.MustRegister(m.hints)
	m.reloads = counters("consign_reloads_total", "Reloads of the configuration.", "result")
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "consign_build_info", Help: "1, with the version of the program."}, []string{"version", "goversion"})
	info.WithLabelValues(version, runtime.Version()).Set(1)
	m.registry.MustRegister(info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.depth.register(m.registry)
	return m
}

// Handler serves them.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// Declare says which kinds and channels the program delivers from now on.
func (m *Metrics) Declare(kinds []string) {
	known := make(map[string]bool, len(kinds))
	for _, k := range kinds {
		known[k] = true
	}
	m.kinds.Store(&known)
}

// kind is the label of a kind.
func (m *Metrics) kind(k string) string {
	if (*m.kinds.Load())[k] {
		return k
	}
	return Other
}

// Reloaded counts a reload.
func (m *Metrics) Reloaded(ok bool) {
	result := "refused"
	if ok {
		result = "done"
	}
	m.reloads.WithLabelValues(result).Inc()
}

// Observe counts what the engine did.
func (m *Metrics) Observe(o consign.Observation) {
	kind := m.kind(o.Kind)
	switch o.Event {
	case "claim":
		m.claims.Inc()
		m.claimed.Add(float64(o.Count))
		m.claimSeconds.Observe(o.Duration.Seconds())
	case "start":
		m.starts.WithLabelValues(kind).Inc()
		if o.Attempt > 1 {
			m.retries.WithLabelValues(kind).Inc()
		}
		m.startSeconds.Observe(o.Write.Seconds())
	case "settle":
		m.settled(kind, &o)
	case "fence":
		m.fenced.WithLabelValues(kind).Inc()
	case "sweep":
		m.swept.Add(float64(o.Count))
	case "error":
		m.storeErrors.Inc()
	case "listen":
		m.hints.Set(0)
		if o.Err == nil {
			m.hints.Set(1)
		}
	}
}

func (m *Metrics) settled(kind string, o *consign.Observation) {
	m.outcomes.WithLabelValues(kind, o.Outcome).Inc()
	switch o.Status {
	case consign.StatusPending, consign.StatusLeased, consign.StatusDelivering:
	default:
		m.ended.WithLabelValues(kind, string(o.Status)).Inc()
	}
	if o.Write > 0 { // an effect came before it
		m.effectSeconds.WithLabelValues(kind).Observe(o.Duration.Seconds())
		m.settleSeconds.Observe(o.Write.Seconds())
	}
}

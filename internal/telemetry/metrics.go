// Package telemetry says what tierq does: metrics for Prometheus, the counts behind GET /api/stats, and traces.
//
//	metrics.go    the registry and its families; series.go resolves their children, once per tier
//	record.go     what other packages call when something happens: a lock-free add, no allocation
//	snapshot.go   gauges, from the latest snapshot: a scrape never calls Redis
//	audit.go      what the audit of Redis found
//	retention.go  how many rows SQL has, and what was deleted for its age
//	schedules.go  the occurrences of schedules that were fired or missed
//	stats.go      the same events, flushed once a second to the store of all processes; buckets.go, summary.go: their
//	              rates and percentiles
//	tracing.go    OpenTelemetry spans, only if an endpoint is set
//
// Labels use the API's own words and are bounded: tiers with a plan, known causes and outcomes; never a job type or
// an id.
package telemetry

import (
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tierq/tierq/internal/job"
)

// Metrics counts and measures. NewMetrics makes it. Its methods are safe for concurrent use, and do nothing on a
// nil *Metrics.
type Metrics struct {
	registry *prometheus.Registry
	plans    *job.PlanBook
	families families

	recoveries [2][]prometheus.Counter // by watch and action
	snapshot   atomic.Pointer[taken]
	audit      audit
	retention  retention

	occurrences occurrences

	mu    sync.Mutex // held by writers of the two maps below, which are replaced as a whole
	tiers atomic.Pointer[map[job.Tier]*series]
	ops   atomic.Pointer[map[string]prometheus.Observer]
}

type families struct {
	submitted, finished, dead *prometheus.CounterVec
	wait, run, redis          *prometheus.HistogramVec
	missing                   prometheus.Counter
}

// scrapeTimeout bounds the time of an answer of /metrics, and maxScrapes the number of concurrent answers.
const (
	scrapeTimeout = 5 * time.Second
	maxScrapes    = 8
)

// The bounds of the histograms' buckets, in seconds.
var (
	waitBounds  = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600}
	runBounds   = []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 50, 120, 600}
	redisBounds = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}
)

// NewMetrics makes Metrics with a registry of its own. plans says which tiers have a label; all other tiers are
// "other".
func NewMetrics(version string, plans *job.PlanBook) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), plans: plans}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		m.registry.MustRegister(v)
		return v
	}
	histogram := func(name, help string, bounds []float64, labels ...string) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: bounds}, labels)
		m.registry.MustRegister(v)
		return v
	}
	m.families = families{
		submitted: counter("tierq_jobs_submitted_total", "Submits this instance answered, by tier and outcome.", "tier",
			"outcome"),
		finished: counter("tierq_jobs_finished_total", "Jobs this instance saw end for good, by tier and outcome.", "tier",
			"outcome"),
		dead: counter("tierq_dead_letters_total", "Jobs this instance saw become dead letters, by tier and cause.",
			"tier", "cause"),
		wait: histogram("tierq_job_wait_seconds",
			"Seconds from a job's arrival, or from when it was due if it was delayed, to its first claim, by tier.", waitBounds,
			"tier"),
		run: histogram("tierq_job_run_seconds", "Seconds an attempt's handler ran, by tier and how the attempt ended.",
			runBounds,
			"tier", "outcome"),
		redis: histogram("tierq_redis_op_seconds", "Seconds a call to Redis took, by operation.", redisBounds, "op"),
		missing: counter("tierq_redis_missing_jobs_total",
			"Jobs without an outcome in SQL that a new incarnation of Redis did not have; "+
				"with the journal on they are restored. Every instance counts them: use max().").WithLabelValues(),
	}
	recoveries := counter("tierq_recoveries_total",
		"Running jobs this instance's watches took back, by cause and by what they did with the job.",
		"cause", "action")
	for i, w := range watches {
		for _, a := range actions {
			m.recoveries[i] = append(m.recoveries[i], recoveries.WithLabelValues(string(w.Cause()), a.label))
		}
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "tierq_build_info",
		Help: "Always 1; the build is in the labels."},
		[]string{"version", "go_version"})
	build.WithLabelValues(version, runtime.Version()).Set(1)
	m.registry.MustRegister(build, gauges{m}, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.audit.register(m.registry)
	m.retention.register(m.registry)
	m.occurrences.register(m.registry)
	m.tiers.Store(&map[job.Tier]*series{})
	m.ops.Store(&map[string]prometheus.Observer{})
	return m
}

// Handler serves the metrics in the text format, or in OpenMetrics if the client asks for that. It only reads
// memory.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: maxScrapes,
		Timeout:             scrapeTimeout,
		EnableOpenMetrics:   true,
	})
}

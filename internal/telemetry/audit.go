package telemetry

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tierq/tierq/internal/job"
)

// audit holds what the audit of Redis found. Its gauges are absent until this instance has values for them.
type audit struct {
	findings    *prometheus.CounterVec
	quarantined atomic.Pointer[int64]
	last        atomic.Pointer[job.AuditReport]
}

var (
	quarantined = describe("tierq_quarantined",
		"Entries of Redis that the audit could not explain and moved to quarantine."+sameEverywhere)
	auditAt = describe("tierq_audit_last_pass_timestamp_seconds",
		"When this instance's last pass of the audit began, by Redis' clock.")
	auditTook = describe("tierq_audit_pass_seconds", "Seconds that this instance's last pass of the audit took.")
)

func (a *audit) register(r *prometheus.Registry) {
	a.findings = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tierq_audit_findings_total",
		Help: "Inconsistencies that this instance's audit found in Redis, by kind and result (repaired, reported, " +
			"quarantined).",
	}, []string{"kind", "result"})
	for result, kinds := range job.FindingKinds {
		for _, kind := range kinds {
			a.findings.WithLabelValues(kind, label(result))
		}
	}
	r.MustRegister(a.findings, a)
}

func label(result job.Word) string { return strings.ToLower(string(result)) }

// AuditFound counts n findings of one kind.
func (m *Metrics) AuditFound(f job.Finding, n int64) {
	if m == nil {
		return
	}
	kind := f.Kind
	if !slices.Contains(job.FindingKinds[f.Result], kind) {
		kind = "other"
	}
	m.audit.findings.WithLabelValues(kind, label(f.Result)).Add(float64(n))
}

// AuditEnded stores the report of a pass that has ended.
func (m *Metrics) AuditEnded(r job.AuditReport) {
	if m != nil {
		m.audit.last.Store(&r)
	}
}

// Quarantined sets how many entries are in quarantine.
func (m *Metrics) Quarantined(n int64) {
	if m != nil {
		m.audit.quarantined.Store(&n)
	}
}

// Describe implements prometheus.Collector.
func (a *audit) Describe(to chan<- *prometheus.Desc) {
	to <- quarantined
	to <- auditAt
	to <- auditTook
}

// Collect implements prometheus.Collector.
func (a *audit) Collect(to chan<- prometheus.Metric) {
	set := func(d *prometheus.Desc, value float64) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value)
	}
	if n := a.quarantined.Load(); n != nil {
		set(quarantined, float64(*n))
	}
	if r := a.last.Load(); r != nil {
		set(auditAt, float64(r.StartedAt.UnixMilli())/1000)
		set(auditTook, r.Seconds)
	}
}

package telemetry

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// sqlTables and fileKinds are the labels of the retention's metrics.
var (
	sqlTables = []string{
		"job_outcomes", "job_results", "failed_jobs", "job_attempts", "cancel_reasons", "job_logs", "accepted_jobs",
		"idempotency_keys", "changes",
	}
	fileKinds = []string{"mail", "artifact"}
)

// retention holds how many rows SQL has, and how many rows and files were deleted for their age. The rows are
// absent until this instance has counted them.
type retention struct {
	rows        atomic.Pointer[map[string]int64]
	deleted     *prometheus.CounterVec
	fileDeleted *prometheus.CounterVec
}

var sqlRows = describe(
	"tierq_sql_rows",
	"Rows in SQL, approximately, by table; counted at the start, after each deletion and at least once "+
		"an hour. Same on every instance with the recovery role; use max().",
	"table",
)

func (a *retention) register(r *prometheus.Registry) {
	a.deleted = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tierq_sql_rows_deleted_total",
		Help: "Rows in SQL that this instance deleted because of their age (TIERQ_SQL_RETENTION), by table.",
	}, []string{"table"})
	for _, table := range sqlTables {
		if table != "accepted_jobs" && table != "idempotency_keys" { // their rows are deleted for other reasons
			a.deleted.WithLabelValues(table)
		}
	}
	a.fileDeleted = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tierq_files_deleted_total",
		Help: "Files on its machine that this instance deleted because of their age, by kind.",
	}, []string{"kind"})
	for _, kind := range fileKinds {
		a.fileDeleted.WithLabelValues(kind)
	}
	r.MustRegister(a.deleted, a.fileDeleted, a)
}

// SQLRows sets how many rows each table has.
func (m *Metrics) SQLRows(rows map[string]int64) {
	if m != nil {
		m.retention.rows.Store(&rows)
	}
}

// RowsDeleted counts rows that were deleted for their age.
func (m *Metrics) RowsDeleted(table string, n int64) {
	if m != nil && n > 0 {
		m.retention.deleted.WithLabelValues(table).Add(float64(n))
	}
}

// FilesDeleted counts files that were deleted for their age.
func (m *Metrics) FilesDeleted(kind string, n int64) {
	if m != nil && n > 0 {
		m.retention.fileDeleted.WithLabelValues(kind).Add(float64(n))
	}
}

// Describe implements prometheus.Collector.
func (a *retention) Describe(to chan<- *prometheus.Desc) { to <- sqlRows }

// Collect implements prometheus.Collector.
func (a *retention) Collect(to chan<- prometheus.Metric) {
	rows := a.rows.Load()
	if rows == nil {
		return
	}
	for _, table := range sqlTables {
		if n, known := (*rows)[table]; known {
			to <- prometheus.MustNewConstMetric(sqlRows, prometheus.GaugeValue, float64(n), table)
		}
	}
}

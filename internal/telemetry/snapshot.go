package telemetry

import (
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tierq/tierq/internal/job"
)

// Snapshot is what was measured a moment ago. The gauges show the latest one.
type Snapshot struct {
	Cluster *Cluster // nil: Redis could not be read
	Slots   []SlotLevel
	Paused  map[string]time.Duration // for how long, by the scope of each pause in force

	GateOpen         bool
	GateFailures     int // infrastructure errors in a row
	Partitions       int // number of partitions; each partition's gate is shown only if there are several
	ClosedPartitions []int
	Schedulers       map[string]time.Duration // the pause between two runs, by loop: crashed, stuck, ...; a fixed few
	SQLUp            bool
}

// Cluster is what Redis says; it is the same on every instance.
type Cluster struct {
	Tiers         map[job.Tier]Level
	Queues        []QueueLevel // main and the declared queues
	CapacityUsed  int64        // ready jobs never claimed
	CapacityLimit int64
	Outbox        int64 // ended jobs not yet in SQL
	OutboxBytes   int64
	Workers       []job.WorkerInfo // the processes that registered lately
}

// Level is one tier's part of the levels.
type Level struct {
	Depth     int64         // ready jobs
	Scheduled int64         // jobs that are not yet due
	InFlight  int64         // running jobs
	OldestAge time.Duration // since the arrival of the ready job that arrived first; 0 if none is ready
}

// QueueLevel is one queue's part of the levels, over all tiers.
type QueueLevel struct {
	Name    string
	Count   job.QueueCount
	Workers int // of all kinds
}

// SlotLevel is how many of this instance's slots are busy and free: those that only jobs of some tiers may use, or,
// without tiers, those for all.
type SlotLevel struct {
	Tiers      string // with "+" between those of one priority; "" = all
	Busy, Free int
}

// stale is the age from which the gauges of the cluster are not shown any more: old values would hide an outage.
const stale = 15 * time.Second

type taken struct {
	Snapshot
	at time.Time
}

// SetSnapshot sets the gauges. It must be called about once a second, also while the stores are down, and the
// snapshot must not change afterwards.
func (m *Metrics) SetSnapshot(s Snapshot) {
	if m == nil {
		return
	}
	if s.Cluster != nil {
		for t := range s.Cluster.Tiers {
			m.of(t) // so that a tier's counters begin at 0, before its first job
		}
	}
	m.snapshot.Store(&taken{Snapshot: s, at: time.Now()})
}

const sameEverywhere = " From Redis: same on every instance; use max()."

var (
	depth  = describe("tierq_queue_depth", "Jobs that are ready and wait for a worker, by tier."+sameEverywhere, "tier")
	oldest = describe("tierq_queue_oldest_age_seconds",
		"Age of the oldest ready job in seconds, by tier."+sameEverywhere, "tier")
	inFlight  = describe("tierq_jobs_inflight", "Jobs that are running, by tier."+sameEverywhere, "tier")
	scheduled = describe("tierq_jobs_scheduled", "Jobs that are not yet due, by tier."+sameEverywhere, "tier")
	inQueue   = describe("tierq_queue_jobs",
		"Jobs of a queue that have not ended, by queue and state (ready, scheduled, running)."+sameEverywhere,
		"queue", "state")
	pausedScope = describe("tierq_paused_seconds",
		"For how long the scope (all, tier:NAME or queue:NAME) is paused; none while it is not."+sameEverywhere, "scope")
	slots = describe("tierq_slots",
		"Slots of this instance by state (busy, free): of the tier alone (kind own), or for all (kind common).",
		"tier", "kind", "state")
	queueWorkers = describe("tierq_queue_workers",
		"Workers that take jobs of the queue: processes of tierq and workers of other programs."+sameEverywhere, "queue")
	used = describe("tierq_capacity_used",
		"Ready jobs never claimed; each tier counts at most its share of the capacity."+sameEverywhere)
	limit = describe("tierq_capacity_limit",
		"Number of ready jobs never claimed from which on submits are refused (TIERQ_CAPACITY)."+sameEverywhere)
	outbox  = describe("tierq_outbox_jobs", "Ended jobs that are not yet in SQL."+sameEverywhere)
	weight  = describe("tierq_outbox_bytes", "Bytes of the results and payloads that wait for SQL."+sameEverywhere)
	workers = describe("tierq_workers", "Worker processes (kind process) and their slots, by state."+sameEverywhere,
		"kind", "state")
	gateOpen = describe("tierq_gate_open", "1 while this instance accepts jobs, 0 while its gate is closed.")
	gateAt   = describe("tierq_gate_partition_open",
		"1 while this instance accepts jobs for a partition, 0 while the gate of its server is closed; only with several "+
			"partitions.", "partition")
	failures = describe("tierq_gate_failures", "Infrastructure errors in a row that this instance's gate has counted.")
	delay    = describe("tierq_scheduler_delay_seconds",
		"Seconds between two runs of this instance's loops; failures double it.", "scheduler")
	sqlUp = describe("tierq_sql_up", "1 if SQL answered this instance's latest query, 0 if not.")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// gauges collects the latest snapshot.
type gauges struct{ *Metrics }

// Describe implements prometheus.Collector.
func (gauges) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		depth, oldest, inFlight, scheduled, inQueue, pausedScope, slots, queueWorkers, used, limit, outbox, weight,
		workers, gateOpen, gateAt, failures, delay, sqlUp,
	} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (g gauges) Collect(to chan<- prometheus.Metric) {
	s := g.snapshot.Load()
	if s == nil {
		return
	}
	set := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	set(gateOpen, truth(s.GateOpen))
	set(failures, float64(s.GateFailures))
	if s.Partitions > 1 {
		for p := range s.Partitions {
			set(gateAt, truth(s.GateOpen && !slices.Contains(s.ClosedPartitions, p)), strconv.Itoa(p))
		}
	}
	set(sqlUp, truth(s.SQLUp))
	for name, d := range s.Schedulers {
		set(delay, d.Seconds(), name)
	}
	for _, l := range s.Slots {
		kind := "own"
		if l.Tiers == "" {
			kind = "common"
		}
		set(slots, float64(l.Busy), l.Tiers, kind, "busy")
		set(slots, float64(l.Free), l.Tiers, kind, "free")
	}
	for scope, long := range s.Paused {
		set(pausedScope, long.Seconds(), scope)
	}
	if s.Cluster != nil && time.Since(s.at) <= stale {
		g.cluster(s.Cluster, set)
	}
}

func (g gauges) cluster(c *Cluster, set func(d *prometheus.Desc, value float64, labels ...string)) {
	for t, l := range g.labelled(c.Tiers) {
		set(depth, float64(l.Depth), string(t))
		set(scheduled, float64(l.Scheduled), string(t))
		set(inFlight, float64(l.InFlight), string(t))
		set(oldest, l.OldestAge.Seconds(), string(t))
	}
	for _, q := range c.Queues {
		set(inQueue, float64(q.Count.Ready), q.Name, "ready")
		set(inQueue, float64(q.Count.Scheduled), q.Name, "scheduled")
		set(inQueue, float64(q.Count.Running), q.Name, "running")
		set(queueWorkers, float64(q.Workers), q.Name)
	}
	set(used, float64(c.CapacityUsed))
	set(limit, float64(c.CapacityLimit))
	set(outbox, float64(c.Outbox))
	set(weight, float64(c.OutboxBytes))
	running, stuck, wedged, free := 0, 0, 0, 0
	for _, w := range c.Workers {
		lost := max(w.Stuck-w.Slots, 0) // handlers that hang beyond the number of slots: their slots were given to others
		running += w.Running - lost
		wedged += lost
		stuck += w.Stuck
		free += max(w.Slots-w.Running, 0)
	}
	set(workers, float64(len(c.Workers)), "process", "alive")
	set(workers, float64(running), "slot", "running")
	set(workers, float64(stuck), "slot", "stuck")
	set(workers, float64(wedged), "slot", "wedged")
	set(workers, float64(free), "slot", "free")
}

// labelled adds up the tiers without a plan, because there is one label for all of them.
func (g gauges) labelled(tiers map[job.Tier]Level) map[job.Tier]Level {
	known := *g.tiers.Load()
	all := make(map[job.Tier]Level, len(tiers))
	for t, l := range tiers {
		if _, ok := known[t]; !ok {
			t = Other
		}
		sum := all[t]
		sum.Depth += l.Depth
		sum.Scheduled += l.Scheduled
		sum.InFlight += l.InFlight
		sum.OldestAge = max(sum.OldestAge, l.OldestAge)
		all[t] = sum
	}
	return all
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

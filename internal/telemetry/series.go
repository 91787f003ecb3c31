package telemetry

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tierq/tierq/internal/job"
)

// Other is the label, and the name in the counts, of tiers without a plan and of an unknown tier.
const Other job.Tier = "other"

// maxTiers and maxOps bound the number of labels, whatever operators and callers do; all further ones are "other".
const (
	maxTiers = 100
	maxOps   = 64
)

// The words of the labels. An index into one of these lists is an index into the arrays of series.
var (
	submits = []Submit{Accepted, Replayed, QueueFull, RateLimited, SystemUnhealthy, OutcomeUnknown, IdempotencyMismatch,
		SubmitError}
	attempts = []job.Ending{job.EndCompleted, job.EndFailed, job.EndCancelled, job.EndRetried, job.EndReleased,
		job.EndLost}
	// how jobs end: as the attempts do that end their job, in the same order, or without an attempt
	endings = append(slices.Clone(attempts[:3]), job.Ending(job.Expired))
	causes  = []job.Cause{
		job.HeartbeatStopped, job.MaxTimeExceeded, job.HandlerError, job.PermanentError, job.ResultTooLarge,
		job.UnknownJobType,
		job.LaterLimit, job.Killed, job.DependencyFailed,
		otherCause,
	}
	watches = []job.Watch{job.Crashed, job.Stuck}
	actions = []struct {
		word  job.Word
		label string
	}{{job.OK, "RETURNED"}, {job.Discarded, "FAILED"}, {job.WasCancelled, "CANCELLED"}, {job.Quarantined, "QUARANTINED"}}
)

// otherCause stands for any cause that is not in the list above.
const otherCause job.Cause = "OTHER"

// series holds all metrics of one tier.
type series struct {
	submitted []prometheus.Counter  // by submits
	finished  []prometheus.Counter  // by endings
	dead      []prometheus.Counter  // by causes
	ran       []prometheus.Observer // by attempts
	waited    prometheus.Observer
	counts    counts
}

// of returns the series of a tier. Only the first call for a tier does more than a read.
func (m *Metrics) of(t job.Tier) *series {
	if s, ok := (*m.tiers.Load())[t]; ok {
		return s
	}
	if _, planned := m.plans.Plan(t); !planned {
		t = Other
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	known := *m.tiers.Load()
	if len(known) >= maxTiers {
		t = Other
	}
	if s, ok := known[t]; ok {
		return s
	}
	s := m.families.resolve(string(t))
	more := maps.Clone(known)
	more[t] = s
	m.tiers.Store(&more)
	return s
}

func (f *families) resolve(tier string) *series {
	s := &series{waited: f.wait.WithLabelValues(tier)}
	for _, w := range submits {
		s.submitted = append(s.submitted, f.submitted.WithLabelValues(tier, string(w)))
	}
	for _, w := range endings {
		s.finished = append(s.finished, f.finished.WithLabelValues(tier, string(w)))
	}
	for _, c := range causes {
		s.dead = append(s.dead, f.dead.WithLabelValues(tier, string(c)))
	}
	for _, w := range attempts {
		s.ran = append(s.ran, f.run.WithLabelValues(tier, string(w)))
	}
	return s
}

// op returns the observer of an operation on Redis.
func (m *Metrics) op(name string) prometheus.Observer {
	if o, ok := (*m.ops.Load())[name]; ok {
		return o
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	known := *m.ops.Load()
	if len(known) >= maxOps {
		name = string(Other)
	}
	if o, ok := known[name]; ok {
		return o
	}
	o := m.families.redis.WithLabelValues(name)
	more := maps.Clone(known)
	more[name] = o
	m.ops.Store(&more)
	return o
}

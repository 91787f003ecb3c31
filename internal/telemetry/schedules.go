package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tierq/tierq/internal/job"
)

// The words of the label outcome, as GET /admin/schedules/{name} has them.
const (
	occurrenceFired  = "FIRED"
	occurrenceMissed = "MISSED"
)

// occurrences counts the occurrences of schedules that this instance decided, by the reason for which they were missed;
// "" = they were fired. No label names a schedule.
type occurrences map[job.MissedReason]prometheus.Counter

func (o *occurrences) register(r *prometheus.Registry) {
	family := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tierq_schedule_occurrences_total",
		Help: "Occurrences of schedules that this instance fired or noted as missed, by outcome and the reason of a miss; " +
			"more than 10,000 in a row count as one.",
	}, []string{"outcome", "reason"})
	*o = occurrences{"": family.WithLabelValues(occurrenceFired, "")}
	for _, why := range job.MissedReasons {
		(*o)[why] = family.WithLabelValues(occurrenceMissed, string(why))
	}
	r.MustRegister(family)
}

// Occurred counts occurrences of a schedule: those that were missed for a reason, or one that was fired, whose reason
// is "".
func (m *Metrics) Occurred(why job.MissedReason, n int) {
	if m == nil {
		return
	}
	if c, known := m.occurrences[why]; known {
		c.Add(float64(n))
	}
}

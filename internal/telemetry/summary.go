package telemetry

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// TierStats is what all processes together did with a tier's jobs within a window.
type TierStats struct {
	SubmittedPerSecond float64
	FinishedPerSecond  float64 // completed, failed, cancelled and expired

	Submitted int64
	Refused   int64 // QUEUE_FULL and SYSTEM_UNHEALTHY
	Completed int64
	Failed    int64 // dead letters
	Cancelled int64
	Expired   int64 // nobody claimed them by their time
	Retried   int64 // failed attempts whose job is tried again
	Recovered int64 // running jobs that a watch reclaimed

	Wait Percentiles // from the arrival, or from when the job was due, to the first claim
	Run  Percentiles // of a handler's run, with any outcome, except runs that were cut short
}

// Percentiles are percentiles of a duration. They are zero if nothing was measured; buckets.go says how exact they
// are.
type Percentiles struct{ P50, P95, P99 time.Duration }

// Summary computes the figures of a window's counts. It skips fields that it does not know: another version may
// have written them.
func Summary(fields map[string]int64, window time.Duration) map[job.Tier]TierStats {
	type spread struct{ wait, run [buckets]int64 }
	all := map[job.Tier]TierStats{}
	spreads := map[job.Tier]*spread{}
	for field, n := range fields {
		name, what, _ := strings.Cut(field, ":")
		kind, index, spreading := strings.Cut(what, ":")
		tier := job.Tier(name)
		if n < 0 {
			continue
		}
		if !spreading {
			s := all[tier]
			if c := s.counter(what); c != nil {
				*c = n
				all[tier] = s
			}
			continue
		}
		b, err := strconv.Atoi(index)
		if err != nil || b < 0 || b >= buckets || kind != "wait" && kind != "run" {
			continue
		}
		if spreads[tier] == nil {
			spreads[tier] = &spread{}
		}
		if kind == "wait" {
			spreads[tier].wait[b] = n
		} else {
			spreads[tier].run[b] = n
		}
	}
	for tier, s := range spreads {
		figures := all[tier]
		figures.Wait, figures.Run = percentiles(&s.wait), percentiles(&s.run)
		all[tier] = figures
	}
	for tier, s := range all {
		if seconds := window.Seconds(); seconds > 0 {
			s.SubmittedPerSecond = float64(s.Submitted) / seconds
			s.FinishedPerSecond = float64(s.Completed+s.Failed+s.Cancelled+s.Expired) / seconds
		}
		all[tier] = s
	}
	return all
}

// counter returns the counter of a field, nil for an unknown field.
func (s *TierStats) counter(name string) *int64 {
	for e, n := range eventNames {
		if n == name {
			return [events]*int64{&s.Submitted, &s.Refused, &s.Completed, &s.Failed, &s.Cancelled, &s.Expired, &s.Retried,
				&s.Recovered}[e]
		}
	}
	return nil
}

func percentiles(in *[buckets]int64) Percentiles {
	var total int64
	for _, n := range in {
		total += n
	}
	// rank uses the nearest rank: the smallest duration that a share of the values does not exceed.
	rank := func(share float64) time.Duration {
		left := int64(math.Ceil(share * float64(total)))
		for b, n := range in {
			if left -= n; left <= 0 {
				return middle(b)
			}
		}
		return 0
	}
	if total == 0 {
		return Percentiles{}
	}
	return Percentiles{P50: rank(0.50), P95: rank(0.95), P99: rank(0.99)}
}

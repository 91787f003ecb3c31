package faktory

import (
	"strings"

	"github.com/tierq/tierq/internal/job"
)

// Route says which tier the jobs of a queue get whose job names none.
type Route struct {
	Queue string // a name, or with a * at its end all names that begin so
	Tier  job.Tier
}

func (r Route) fits(queue string) bool {
	bare, prefix := strings.CutSuffix(r.Queue, "*")
	return queue == r.Queue || prefix && strings.HasPrefix(queue, bare)
}

// tierOf returns the tier of a job: the one that it names; else that of the first route which fits its queue; else the
// tier whose name the queue has, alone or before a dot or a hyphen; else UNPAID.
func (s *Server) tierOf(named, queue string) (job.Tier, error) {
	if named != "" {
		tier := job.Tier(strings.ToUpper(named))
		if _, known := s.Plans.Plan(tier); !known {
			return "", refusal("no such tier: " + named)
		}
		return tier, nil
	}
	for _, r := range s.Tiers {
		if r.fits(queue) {
			if _, known := s.Plans.Plan(r.Tier); !known {
				return "", refusal("no such tier: " + string(r.Tier) + ", which TIERQ_FAKTORY_QUEUES names")
			}
			return r.Tier, nil
		}
	}
	first := queue
	if at := strings.IndexAny(queue, ".-"); at > 0 {
		first = queue[:at]
	}
	if tier := job.Tier(strings.ToUpper(first)); strings.ToLower(first) == first {
		if _, known := s.Plans.Plan(tier); known {
			return tier, nil
		}
	}
	return job.Unpaid, nil
}

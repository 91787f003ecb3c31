package sim

import (
	"context"
	"slices"
	"strings"

	"github.com/tierq/tierq/internal/job"
)

// audit is a pass of the audit, as recovery makes it: SQL first, then the looks, the counters at last. Redis never went
// back in time here, so there is nothing to find.
func (c *client) audit(p *process) {
	var suspects []job.Suspected
	c.step("outcomes", func() { suspects = c.world.suspects() })
	for _, look := range []func() ([]job.Finding, error){
		func() ([]job.Finding, error) { return p.queue.AuditJobs(context.Background(), suspects) },
		func() ([]job.Finding, error) { return p.queue.Recount(context.Background(), 0, true) },
	} {
		found, _ := look() // what failed has found nothing
		c.step("audited", func() {
			if len(found) > 0 {
				c.world.fail("audit", "a pass finds %+v", found)
			}
		})
	}
}

// suspects are all jobs, with what SQL has of them.
func (w *World) suspects() (all []job.Suspected) {
	for id := range w.shadow.jobs {
		s := job.Suspected{ID: id, Partition: id.Partition()}
		for g := 1; ; g++ {
			o, there := w.sql.outcomes[life{id, g}]
			if !there {
				break
			}
			s.Recorded = append(s.Recorded, job.Recorded{Generation: g, Status: o.Status})
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b job.Suspected) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return all
}

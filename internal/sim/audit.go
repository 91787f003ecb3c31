package sim

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/tierq/tierq/internal/job"
)

// audit is a pass of the audit as recovery makes it: it reads SQL first, then checks the jobs, and the counters
// last. Redis never loses data in these seeds, so that a finding is a violation.
func (c *client) audit(p *process) {
	var suspects []job.Suspected
	c.step("outcomes", func() { suspects = c.world.suspects() })
	for _, look := range []func() ([]job.Finding, error){
		func() ([]job.Finding, error) { return p.queue.AuditJobs(context.Background(), suspects) },
		func() ([]job.Finding, error) { return p.queue.Recount(context.Background(), 0, true) },
	} {
		found, _ := look() // a look that failed has no findings
		c.step("audited", func() {
			if len(found) > 0 {
				c.world.fail("audit", "a pass finds %+v", found)
			}
		})
	}
}

// suspects returns all jobs, each with its outcomes in SQL.
func (w *World) suspects() (all []job.Suspected) {
	for name := range w.shadow.lineNames() {
		tier, rest, _ := strings.Cut(name, ":")
		key, queue, _ := strings.Cut(rest, ":")
		all = append(all, job.Suspected{ID: job.ID("@" + tier + ":" + key), MetIn: queue})
	}
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
	slices.SortFunc(all, func(a, b job.Suspected) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.MetIn, b.MetIn))
	})
	return all
}

package sim

import (
	"context"
	"fmt"

	"github.com/tierq/tierq/internal/job"
)

// forget forgets all ended jobs that may go when memory is short.
func (c *client) forget(p *process) {
	var ids []job.ID
	c.step("jobs", func() {
		for _, s := range c.world.suspects() {
			ids = append(ids, s.ID)
		}
	})
	if len(ids) > 0 {
		_, _, _ = p.queue.Forget(context.Background(), 0, ids, c.world.ms()) // the shadow checks the answers
	}
}

// forgot checks that a job which is forgotten was acknowledged, ended at least two minutes ago, and is in SQL.
func (s *shadow) forgot(argv, texts []string) {
	now, before, young := s.w.ms(), number(argv[0]), number(argv[1])
	for i, id := range argv[2:] {
		k, want := s.jobs[job.ID(id)], string(job.Empty)
		switch {
		case k == nil, k.forgotten:
		case !k.acked, now-k.ended < young:
			want = string(job.Busy)
		case k.ended <= before:
			want = string(job.OK)
		default:
			want = fmt.Sprint(job.Ended, " ", k.ended)
		}
		if texts[i] != want {
			s.wrong("S1 S13", "%s: a forget of what ended until %d answers %q, not %q", k, before, texts[i], want)
		}
		if want != string(job.OK) {
			continue
		}
		if _, there := s.w.sql.outcomes[life{k.id, k.generation}]; !there {
			s.wrong("S1", "%s: forgotten, and SQL does not have it", k)
		}
		k.forgotten, k.ending, k.left = true, "", 0
		s.w.report.Faults["forgotten"]++
	}
}

// noteEnds records when jobs ended.
func (s *shadow) noteEnds() {
	for _, k := range s.jobs {
		if k.status.Ended() && k.ended == 0 {
			k.ended = s.w.ms()
		}
	}
}

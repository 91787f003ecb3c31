package sim

import (
	"context"
	"fmt"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// forget forgets all ended jobs that may go when memory is short. Each job of a run has a slice of its own.
func (c *client) forget(p *process) {
	var slices []string
	c.step("jobs", func() {
		for _, s := range c.world.suspects() {
			slices = append(slices, queuetest.SliceOf(string(s.ID)))
		}
	})
	if len(slices) > 0 {
		_, _, _ = p.queue.Forget(context.Background(), 0, slices, c.world.ms()) // the shadow checks the answers
	}
}

// inSlice returns the job of partition 0 in a slice.
func (s *shadow) inSlice(slice string) *known {
	for id, k := range s.jobs {
		if queuetest.SliceOf(string(id)) == slice && id.Partition() == 0 {
			return k
		}
	}
	return nil
}

// forgot checks that a job which is forgotten was acknowledged, ended at least job.LeastMemory ago, and is in SQL.
func (s *shadow) forgot(argv, texts []string) {
	now, before, young := s.w.ms(), number(argv[0]), number(argv[1])
	for i, slice := range argv[2:] {
		k, want := s.inSlice(slice), string(job.Empty)
		switch {
		case k == nil, k.forgotten, !k.status.Ended():
		case !k.acked, now-k.ended < young:
			want = string(job.Busy)
		case k.ended <= before:
			want = string(job.OK) + " 1"
		default:
			want = fmt.Sprint(job.Ended, " ", k.ended, " 1")
		}
		if texts[i] != want {
			s.wrong("S1 S13", "%s: a forget of what ended until %d answers %q, not %q", k, before, texts[i], want)
		}
		if want != string(job.OK)+" 1" {
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

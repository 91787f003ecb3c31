package sim

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// poll asks for a job again and again, and holds each answer to what was true when it was asked for, and when it came.
func (c *client) poll() {
	for range c.tries {
		var p *process
		var before known
		c.step("poll", func() {
			p = c.world.processes[c.process]
			if k := c.world.shadow.of(c.id); k != nil {
				before = *k
			}
		})
		if p == nil {
			return // it is over
		}
		j, err := p.ledger.Find(context.Background(), c.id)
		c.step("polled", func() { c.world.shadow.polled(&before, c.id, &j, err, c.world.sql) })
		<-time.After(c.pause)
	}
}

// polled: a job that is there is found, its generation never falls, an end stays an end, and is none before it has
// come. A generation that Redis has not made yet is shown as PENDING, from its promise on.
func (s *shadow) polled(before *known, id job.ID, j *job.Job, err error, sql *database) {
	k := s.of(id)
	switch {
	case errors.Is(err, job.ErrNotFound):
		if before.id != "" {
			s.wrong("S16", "%s: a poll does not find it", before)
		}
		return
	case errors.Is(err, job.ErrUnavailable), errors.Is(err, job.ErrAmbiguous), errors.Is(err, context.DeadlineExceeded):
		return
	case err != nil:
		s.wrong("S16", "%s: a poll answers %v", id, err)
		return
	case k == nil && !sql.written[id].IsZero():
		return // by its row: Redis is about to have it, or refuses it
	case k == nil:
		s.wrong("S3", "%s: a poll finds it, and nobody submitted it", id)
		return
	}
	if s.lost[id] != nil {
		return // it has gone back, or lives again
	}
	shown := j.Status.Shown()
	if j.Generation == k.generation+1 && shown == job.Pending && sql.promised(life{id, k.generation}) {
		return
	}
	switch {
	case j.Generation < before.generation || j.Generation > k.generation:
		s.wrong("S16", "%s: a poll shows generation %d; it had %d before", k, j.Generation, before.generation)
	case j.Generation == before.generation && before.status.Ended() && shown != before.status.Shown():
		s.wrong("S16", "%s: a poll shows %s after its end", before, shown)
	case j.Generation == k.generation && shown.Ended() && shown != k.status.Shown():
		s.wrong("S16", "%s: a poll shows %s", k, shown)
	}
	var r result
	if shown == job.Completed && (json.Unmarshal(j.Result, &r) != nil || r != result{id, k.attempt}) {
		s.wrong("S16 S18", "%s: a poll shows the result %q", k, j.Result)
	}
}

package sim

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// poll polls a job again and again, and checks each answer against the job's state before and after the poll.
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
			return // the run is over
		}
		j, err := p.ledger.Find(context.Background(), c.id)
		c.step("polled", func() { c.world.shadow.polled(&before, c.id, &j, err, c.world.sql) })
		<-time.After(c.pause)
	}
}

// polled checks the answer to a poll. An existing job is found, its generation never falls, an end stays, and no
// poll shows an end too early. A generation that Redis does not have yet is shown as PENDING as soon as its
// requeue was accepted.
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
		return // from its row: Redis is about to get it, or refuses it
	case k == nil:
		s.wrong("S3", "%s: a poll finds it, and nobody submitted it", id)
		return
	}
	if s.lost[id] != nil {
		return // Redis lost it: it may have an earlier state, or be alive again
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

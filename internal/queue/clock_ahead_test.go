package queue_test

import (
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// What Redis noted while its clock was an hour ahead holds up nothing for as long: neither an outcome that a taker
// left, nor a job whose first look is noted.
func TestNotesOfAClockAhead(t *testing.T) {
	t.Attr("proves", "F34")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		dead, crashed := e.Start(t, job.Paid), e.Start(t, job.Paid)
		e.Bury(t, dead)
		same(t, "outcomes", len(take(t, e.Queue, 10)), 1)
		same(t, "outcomes for another", len(take(t, e.Queue, 10)), 0)
		e.Age(t, "outbox", -time.Hour)
		same(t, "outcomes that a clock ahead hides", len(take(t, e.Queue, 10)), 1)
		same(t, "outcomes for another", len(take(t, e.Queue, 10)), 0)

		e.Age(t, "heartbeat_deadlines", time.Hour, crashed.ID)
		same(t, "the first look", e.Look(t, job.Crashed)[crashed.ID], job.Suspect)
		e.Age(t, "suspects:crashed", -time.Hour)
		same(t, "a look after one of a clock ahead", e.Look(t, job.Crashed)[crashed.ID], job.Suspect)
		e.Age(t, "suspects:crashed", queue.Patience)
		same(t, "the second look", e.Look(t, job.Crashed)[crashed.ID], job.OK)
	})
}

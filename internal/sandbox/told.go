package sandbox

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
)

// told is the queue of a process. It publishes its calls as events.
type told struct {
	*queue.Queue
	world *world
	who   string // the worker's name; "" for the server
}

// call is what the connection saw of a script call.
type call struct{ queue.ScriptCall }

type callKey struct{}

// watch stores the script and the keys of a call whose context asks for it.
func watch(ctx context.Context, seen queue.ScriptCall) {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		c.ScriptCall = seen
	}
}

// keys returns the call's KEYS that concern a job. It appends the job's id to the prefixes of job keys and the job's
// slice to the prefix of slices, and leaves out other prefixes.
func (c *call) keys(id job.ID) []string {
	keys := make([]string, 0, len(c.Keys))
	for _, key := range c.Keys {
		switch {
		case key == queue.Key(0, "job"), key == queue.Key(0, "attempts"):
			keys = append(keys, key+string(id))
		case key == queue.Key(0, "ended"):
			keys = append(keys, queue.EndedKey(id))
		case !strings.HasSuffix(key, ":"):
			keys = append(keys, key)
		}
	}
	return keys
}

// step makes one call and publishes its events before any other call is made. So the events are in the order in
// which things happened, and their snapshots show these moments.
func step[T any](ctx context.Context, t *told, do func(ctx context.Context) (T, error),
	tell func(c *call, reply T)) (reply T, err error) {
	w := t.world
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return reply, fmt.Errorf("wait for a turn: %w: %w", job.ErrUnavailable, ctx.Err())
	}
	c := &call{}
	if reply, err = do(context.WithValue(ctx, callKey{}, c)); err == nil {
		tell(c, reply)
		w.lookAtCapacity()
	}
	return reply, err
}

// emit publishes an event of a call.
func (t *told) emit(c *call, kind Kind, id job.ID, attempt int, note string) {
	keys := c.keys(id)
	t.world.emit(Event{
		Kind: kind, Job: id, Tier: t.world.tier(id), Attempt: attempt, Worker: t.who, Script: c.Script, Keys: keys,
		Snapshot: t.world.store.look(keys), Note: note,
	})
}

// Submit publishes which jobs were accepted and which were refused for the capacity.
func (t *told) Submit(ctx context.Context, partition int, batch []job.Submission) ([]job.SubmitReply, error) {
	return step(ctx, t, func(ctx context.Context) ([]job.SubmitReply,
		error) {
		return t.Queue.Submit(ctx, partition, batch)
	},
		func(c *call, replies []job.SubmitReply) {
			for i, r := range replies {
				s := &batch[i]
				t.world.know(s.ID, s.Tier)
				switch {
				case r.Word == job.Full:
					t.emit(c, JobRefused, s.ID, 0, "FULL: "+string(s.Tier)+" has its share of the capacity")
				case r.Word != job.OK:
				case s.Delayed():
					t.emit(c, JobAccepted, s.ID, 0, "")
					t.emit(c, JobScheduled, s.ID, 0, "it is due in "+s.Delay.String())
				default:
					t.emit(c, JobAccepted, s.ID, 0, "")
					t.emit(c, QueuePushed, s.ID, 0, "")
				}
			}
		})
}

// Claim publishes the new leases.
func (t *told) Claim(ctx context.Context, partition int, r job.ClaimRequest) (job.ClaimReply, error) {
	return step(ctx, t, func(ctx context.Context) (job.ClaimReply, error) { return t.Queue.Claim(ctx, partition, r) },
		func(c *call, reply job.ClaimReply) {
			for i := range reply.Leases {
				l := &reply.Leases[i]
				t.emit(c, JobClaimed, l.ID, l.Attempt, "token "+l.Token)
			}
		})
}

// Heartbeat publishes deadlines that moved, and lost leases.
func (t *told) Heartbeat(ctx context.Context, partition int, batch []job.Beat) ([]job.Word, error) {
	return step(ctx, t, func(ctx context.Context) ([]job.Word, error) { return t.Queue.Heartbeat(ctx, partition, batch) },
		func(c *call, words []job.Word) {
			for i, word := range words {
				kind := LeaseBeat
				if word == job.Lost {
					kind = LeaseLost
				}
				t.emit(c, kind, batch[i].ID, batch[i].Attempt, "heartbeat: "+string(word))
			}
		})
}

// Complete publishes the ends of attempts.
func (t *told) Complete(ctx context.Context, partition int, batch []job.Completion) ([]job.EndReply, error) {
	return step(ctx, t, func(ctx context.Context) ([]job.EndReply,
		error) {
		return t.Queue.Complete(ctx, partition, batch)
	},
		func(c *call, replies []job.EndReply) {
			for i, r := range replies {
				t.ended(c, batch[i].LeaseRef, r.Word, JobCompleted, "complete")
			}
		})
}

// Fail publishes the ends of attempts: a job with retries left waits for its backoff, or is ready at once.
func (t *told) Fail(ctx context.Context, partition int, batch []job.Failure) ([]job.EndReply, error) {
	return step(ctx, t, func(ctx context.Context) ([]job.EndReply, error) { return t.Queue.Fail(ctx, partition, batch) },
		func(c *call, replies []job.EndReply) {
			for i, r := range replies {
				f := &batch[i]
				kind, note := JobRequeued, string(f.Cause)+": back to its place"
				if f.Delay > 0 {
					kind, note = JobScheduled, string(f.Cause)+": again in "+f.Delay.String()
				}
				if r.Word == job.Discarded {
					note = string(f.Cause) + ": no retry is left"
				}
				t.ended(c, f.LeaseRef, r.Word, kind, note)
			}
		})
}

// Release publishes the jobs that were released.
func (t *told) Release(ctx context.Context, partition int, batch []job.Release) ([]job.EndReply, error) {
	return step(ctx, t, func(ctx context.Context) ([]job.EndReply,
		error) {
		return t.Queue.Release(ctx, partition, batch)
	},
		func(c *call, replies []job.EndReply) {
			for i, r := range replies {
				t.ended(c, batch[i].LeaseRef, r.Word, JobRequeued, "given back; no retry is spent")
			}
		})
}

// ended publishes how a lease ended. good is the kind of event for OK.
func (t *told) ended(c *call, l job.LeaseRef, word job.Word, good Kind, note string) {
	kind := good
	switch word {
	case job.Discarded:
		kind = JobDead
	case job.WasCancelled:
		kind = JobCancelled
	case job.Lost:
		kind, note = LeaseLost, c.Script+": LOST, nothing changed"
	}
	t.emit(c, kind, l.ID, l.Attempt, note)
}

// Reclaim publishes which jobs a watch suspects, and which it reclaimed.
func (t *told) Reclaim(ctx context.Context, partition int, watch job.Watch, skip int) ([]job.Reclaimed, error) {
	return step(ctx, t, func(ctx context.Context) ([]job.Reclaimed, error) {
		return t.Queue.Reclaim(ctx, partition, watch, skip)
	},
		func(c *call, found []job.Reclaimed) {
			for _, r := range found {
				switch r.Word {
				case job.Suspect:
					if t.world.suspect(watch, r.ID) {
						t.emit(c, LeaseExpired, r.ID, 0,
							"watch "+string(watch)+": its deadline has passed; it is noted, and looked at again")
					}
				case job.OK:
					t.emit(c, JobRequeued, r.ID, 0, string(r.Cause)+": taken back, to its place")
				case job.Discarded:
					t.emit(c, JobDead, r.ID, 0, string(r.Cause)+": no retry is left")
				case job.WasCancelled:
					t.emit(c, JobCancelled, r.ID, 0, string(r.Cause))
				}
			}
		})
}

// Promote publishes which scheduled jobs became ready.
func (t *told) Promote(ctx context.Context, partition int) (int, error) {
	var before []member
	return step(ctx, t, func(ctx context.Context) (int, error) {
		before = t.world.store.members(queue.Key(partition, "scheduled"))
		return t.Queue.Promote(ctx, partition)
	}, func(c *call, promoted int) {
		for _, m := range before[:min(promoted, len(before))] { // the jobs that were due first
			t.emit(c, QueuePushed, job.ID(m.name), 0, "it was due")
		}
	})
}

// Cancel publishes which jobs were cancelled.
func (t *told) Cancel(ctx context.Context, partition int, batch []job.Cancellation) ([]job.Word, error) {
	return step(ctx, t, func(ctx context.Context) ([]job.Word, error) { return t.Queue.Cancel(ctx, partition, batch) },
		func(c *call, words []job.Word) {
			for i, word := range words {
				if word == job.WasCancelled {
					t.emit(c, JobCancelled, batch[i].ID, 0, "")
				}
			}
		})
}

// Restore publishes the next generations of jobs.
func (t *told) Restore(ctx context.Context, partition int, batch []job.JournalRow, read time.Time) ([]job.Word, error) {
	restore := func(ctx context.Context) ([]job.Word, error) { return t.Queue.Restore(ctx, partition, batch, read) }
	return step(ctx, t, restore,
		func(c *call, words []job.Word) {
			for i, word := range words {
				if word == job.OK {
					t.emit(c, JobRequeued, batch[i].ID, batch[i].Attempt, fmt.Sprintf("generation %d", batch[i].Generation))
				}
			}
		})
}

// Acknowledge publishes which outcomes are in the archive.
func (t *told) Acknowledge(ctx context.Context, partition int, batch []job.Ack) ([]job.Word, error) {
	return step(ctx, t, func(ctx context.Context) ([]job.Word,
		error) {
		return t.Queue.Acknowledge(ctx, partition, batch)
	},
		func(c *call, words []job.Word) {
			for i, word := range words {
				if a := &batch[i]; word == job.OK {
					t.emit(c, JobArchived, a.ID, a.Attempt, tables[a.Status])
				}
			}
		})
}

// tables are the tables in which a real server stores the outcomes.
var tables = map[job.Status]string{job.Completed: "job_results", job.Failed: "failed_jobs",
	job.Cancelled: "job_outcomes"}

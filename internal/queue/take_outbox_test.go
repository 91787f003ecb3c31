package queue_test

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

func take(t *testing.T, q *queue.Queue, limit int) []job.Outcome {
	t.Helper()
	out, err := q.TakeOutbox(t.Context(), 0, limit)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTakeOutbox(t *testing.T) {
	t.Attr("proves", "S4-M6")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		done, dead, running := e.Start(t, job.Paid), e.Start(t, job.Unpaid), e.Start(t, job.Public)
		cancelled := e.Put(t, job.Public)
		e.Finish(t, done)
		same(t, "outcomes within the lead", len(take(t, e.Queue, 10)), 0)
		e.Bury(t, dead)
		e.Cancels(t, cancelled)
		e.Age(t, "outbox", queue.OutboxLead, done.ID)
		got := map[job.ID]job.Outcome{}
		for _, o := range take(t, e.Queue, 10) {
			got[o.ID] = o
		}
		same(t, "outcomes", len(got), 3)
		same(t, "completed", got[done.ID].Status, job.Completed)
		same(t, "its result", string(got[done.ID].Result), `{"done":true}`)
		same(t, "its payload", string(got[done.ID].Payload), "") // SQL keeps no payload of a completed job
		same(t, "failed", got[dead.ID].Status, job.Failed)       // not NEED_DISCARD
		same(t, "its payload", string(got[dead.ID].Payload), string(dead.Payload))
		same(t, "its trace", got[dead.ID].TraceID, dead.TraceID)
		same(t, "its start", got[dead.ID].StartedAt, dead.StartedAt)
		same(t, "its history", got[dead.ID].Attempts[0].Error, "no use")
		same(t, "cancelled", got[cancelled].Status, job.Cancelled)
		same(t, "its first try", got[cancelled].FirstTriedAt.IsZero(), true)

		// Another drainer gets none of these outcomes until the first taker's time is over. The jobs stay in the outbox.
		snap := e.Snapshot(t)
		same(t, "bystander", snap.State(running.ID), job.Processing)
		same(t, "outbox", len(snap.Sets["outbox"]), 3)
		same(t, "outcomes for another", len(take(t, e.Process("other"), 10)), 0)
		e.Unchanged(t, snap)
		e.Age(t, "outbox", queue.OutboxLead)
		same(t, "outcomes after the lease", len(take(t, e.Process("other"), 10)), 3)
	})
}

func TestTakeOutboxIsShared(t *testing.T) {
	t.Attr("proves", "S3-I12")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		for range 30 {
			e.Cancels(t, e.Put(t, job.Paid))
		}
		seen := map[job.ID]bool{}
		for _, q := range []*queue.Queue{e.Queue, e.Process("b"), e.Process("c")} {
			for _, o := range take(t, q, 10) {
				if seen[o.ID] {
					t.Errorf("%s was handed out twice", o.ID)
				}
				seen[o.ID] = true
			}
		}
		same(t, "outcomes", len(seen), 30)
	})
}

func TestTakeOutboxBytes(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		for range 2 {
			batch := make([]job.Submission, 15)
			for i := range batch {
				batch[i] = queuetest.Job(job.Paid)
				batch[i].Payload = bytes.Repeat([]byte("x"), 64<<10)
			}
			e.PutAll(t, batch...)
			for _, s := range batch {
				e.Cancels(t, s.ID)
			}
		}
		out := take(t, e.Queue, 100)
		same(t, "outcomes of 64 KiB in one call", len(out), 15) // with their heads, just below 16
		same(t, "the rest", len(take(t, e.Queue, 100)), 15)

		// An outcome above the limit is handed out alone.
		huge := out[0].ID
		e.Edit(t, "job", huge, func(text string) string {
			at := strings.LastIndexByte(text, '\n') + 1
			return strings.Replace(text[:at], " 65536 ", " 2097152 ", 1) + strings.Repeat("x", 2<<20)
		})
		e.Edit(t, "ended", huge, func(text string) string { return strings.Replace(text, " 65536 ", " 2097152 ", 1) })
		e.Redis.HIncrBy(t.Context(), queue.Key(0, "counters"), "outbox_bytes", 2<<20-64<<10)
		e.Age(t, "outbox", time.Hour)
		e.Age(t, "outbox", time.Hour, huge) // first in the outbox
		alone := take(t, e.Queue, 100)
		if len(alone) != 1 || alone[0].ID != huge {
			t.Errorf("%d outcomes with one of 2 MiB in front", len(alone))
		}
	})
}

func TestTakeOutboxQuarantines(t *testing.T) {
	t.Attr("proves", "F53")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		gone, good := e.Put(t, job.Paid), e.Put(t, job.Paid)
		e.Cancels(t, gone)
		e.Cancels(t, good)
		e.Redis.HDel(t.Context(), queue.EndedKey(gone), string(gone))
		out := take(t, e.Queue, 10)
		if len(out) != 1 || out[0].ID != good {
			t.Fatal(out)
		}
		e.Broken(t, "1 in quarantine")
	})
}

// An unreadable outcome does not keep other outcomes from SQL, and an unreadable lease does not keep other leases
// from the worker.
func TestUnreadableJobIsPassedOver(t *testing.T) {
	t.Attr("proves", "F51")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		bad, good := e.Start(t, job.Paid), e.Start(t, job.Paid)
		e.Bury(t, bad)
		e.Bury(t, good)
		var whole string
		e.Edit(t, "ended", bad.ID, func(text string) string {
			whole = text
			line, rest, _ := strings.Cut(text, "\n")
			_, detail, _ := strings.Cut(rest, "\n")
			return line + "\ntorn\n" + detail
		})
		got := take(t, e.Queue, 10)
		if len(got) != 1 || got[0].ID != good.ID {
			t.Errorf("took %v, want the good one alone", got)
		}
		e.Edit(t, "ended", bad.ID, func(string) string { return whole })

		odd, even := e.Put(t, job.Paid), e.Put(t, job.Paid)
		e.Edit(t, "job", odd, func(text string) string {
			whole = text
			at := strings.LastIndexByte(text, '\n')
			return text[:at] + " too much" + text[at:]
		})
		reply, err := e.Claim(t.Context(), 0, job.ClaimRequest{Number: 1 << 40, Max: 10, Bound: math.Inf(1)})
		if err != nil || len(reply.Leases) != 1 || reply.Leases[0].ID != even {
			t.Errorf("claimed %v, %v, want the even one alone", reply.Leases, err)
		}
		e.Edit(t, "job", odd, func(string) string { return whole })
		e.Edit(t, "leases", odd, func(text string) string { return strings.TrimSuffix(text, " too much") })
	})
}

// An ended job that was edited by hand still reaches SQL, as long as its outcome can be read.
func TestTakeOutboxPassesOverWhatIsUnreadable(t *testing.T) {
	t.Attr("proves", "F51")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		l := e.Start(t, job.Paid)
		e.Bury(t, l)
		e.Edit(t, "ended", l.ID, func(text string) string {
			parts := strings.SplitN(text, "\n", 3)
			return parts[0] + "\n" + parts[1] + ` {"callback` + "\n" + parts[2]
		})
		e.Redis.RPush(t.Context(), queue.Key(0, "attempts")+string(l.ID), "not a line")
		out := e.Drain(t)
		if len(out) != 1 || out[0].ID != l.ID || out[0].Status != job.Failed || len(out[0].Attempts) == 0 {
			t.Fatalf("%+v", out)
		}
		same(t, "outbox", len(e.Snapshot(t).Sets["outbox"]), 0)
	})
}

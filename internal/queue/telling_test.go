package queue_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// tellWith runs the sequence of calls on a changed queue. Each line is a reply, a finding of the audit after it,
// or a part of the data left behind.
func tellWith(t *testing.T, ids []job.ID, change func(*queue.Queue)) []string {
	t.Helper()
	s := &telling{T: t, ids: ids}
	s.Env = queuetest.Embedded(t, func(o *queue.Options) {
		o.Killed = func(tier job.Tier) { s.killed(tier) }
		o.Nonce, o.Capacity, o.Journal, o.Embedded = "teller", 4, true, true
		o.LivingLimit, o.LivingBytes, o.LaterLimit, o.LaterAge = tellLiving, tellBytes, 1, 2*time.Hour
		o.UnknownFor = time.Hour
	})
	change(s.Queue)
	s.tell()
	s.Broken(t)
	return s.lines
}

// The limits of living jobs and of their bytes, which the sequence reaches only at its end.
const (
	tellLiving = 11
	tellBytes  = 1000
)

type telling struct {
	*testing.T
	*queuetest.Env
	ids    []job.ID
	lines  []string
	number int64
	step   int
	leases map[int]job.LeaseRef // the latest lease of each job, by the job's number
	killed func(job.Tier)       // hears of jobs that a kill ended
}

func (s *telling) say(what string, reply any, err error) {
	s.step++
	what = fmt.Sprintf("step %d, %s", s.step, what)
	text := fmt.Sprintf("%s: %s", what, timeless(fmt.Sprint(reply)))
	if err != nil {
		text = "error: " + text + ": " + err.Error()
	}
	for i, id := range s.ids {
		text = strings.ReplaceAll(text, string(id), fmt.Sprint("job ", i))
	}
	s.lines = append(s.lines, text)
	snap := s.Env.Snapshot(s.T)
	for _, wrong := range snap.Audit() {
		s.lines = append(s.lines, "audit after "+what+": "+wrong)
	}
	for _, line := range snap.Shape() {
		s.lines = append(s.lines, what+" left "+line)
	}
}

func (s *telling) submit(n int, tier job.Tier, delay time.Duration) {
	words, err := s.Env.Words(s.Context(), 0,
		[]job.Submission{{ID: s.ids[n], Tier: tier, Type: "X", Owner: "ann", Payload: []byte("{}"), MaxRetries: 2,
			Delay: delay}})
	s.say(fmt.Sprintf("submit %d", n), words, err)
}

// quota submits jobs of an owner who may have n living jobs.
func (s *telling) quota(n int, numbers ...int) {
	var batch []job.Submission
	for _, i := range numbers {
		batch = append(batch, job.Submission{ID: s.ids[i], Tier: job.Paid, Type: "X", Owner: "bob", Quota: n,
			Payload: []byte("{}"), MaxRetries: 2, Delay: 1000 * time.Hour})
	}
	words, err := s.Env.Words(s.Context(), 0, batch)
	s.say(fmt.Sprintf("submit %v of %d", numbers, n), words, err)
}

// twice submits two jobs of different classes in one call, and the first job again in the same call.
func (s *telling) twice(n, other int) {
	one := job.Submission{ID: s.ids[n], Tier: job.Public, Type: "X", Payload: []byte("{}"), MaxRetries: 2,
		Delay: 1000 * time.Hour}
	two := job.Submission{ID: s.ids[other], Tier: job.Unpaid, Type: "X", Payload: []byte("{}"), MaxRetries: 1,
		Delay: 2000 * time.Hour}
	words, err := s.Env.Words(s.Context(), 0, []job.Submission{one, two, one})
	s.say(fmt.Sprintf("submit %d, %d and %d", n, other, n), words, err)
}

// once submits with an Idempotency-Key.
func (s *telling) once(n int, body string) {
	key := strings.Repeat("a", 32)
	replies, err := s.Env.Submit(s.Context(), 0, []job.Submission{{
		ID: s.ids[n], Tier: job.Paid, Type: "X", MaxRetries: 2, Delay: 1000 * time.Hour,
		Idempotency: job.Idempotency{Key: key, Body: strings.Repeat(body, 32)},
	}})
	s.say(fmt.Sprintf("submit %d once", n), replies, err)
}

// save stores a checkpoint.
func (s *telling) save(n, number int, text string) {
	words, err := s.Env.Heartbeat(s.Context(), 0,
		[]job.Beat{{LeaseRef: s.leases[n], Timeout: time.Minute, Save: number, Checkpoint: []byte(text)}})
	s.say(fmt.Sprintf("save %d", n), words, err)
}

func (s *telling) claim(number int64, most int) {
	reply, err := s.Env.Claim(s.Context(), 0, job.ClaimRequest{Number: number, Max: most, Bound: math.Inf(1)})
	var got []string
	for _, l := range reply.Leases {
		got = append(got, fmt.Sprintf("%s/%d attempt %d retries %d crashes %d %s saved %q", l.ID, l.Generation, l.Attempt,
			l.RetryCount, l.Crashes, l.Payload, l.Checkpoint))
		s.leases[slices.Index(s.ids, l.ID)] = l.Ref()
	}
	s.number = max(s.number, number)
	s.say(fmt.Sprintf("claim %d", number), got, err)
}

func (s *telling) next(most int) { s.claim(s.number+1, most) }

// write makes a report with a lease, after reports with each part of the lease wrong.
func (s *telling) write(verb string, n int) {
	ref := s.leases[n]
	token, attempt := ref, ref
	token.Token, attempt.Attempt = "stale:1", ref.Attempt+1
	got, err := writes[verb](s.Context(), s.Queue, token, attempt)
	s.say(fmt.Sprintf("%s %d, stale", verb, n), got, err)
	got, err = writes[verb](s.Context(), s.Queue, ref, ref) // twice in one call: it ends once
	s.say(fmt.Sprintf("%s %d", verb, n), got, err)
	got, err = writes[verb](s.Context(), s.Queue, token, attempt)
	s.say(fmt.Sprintf("%s %d, stale again", verb, n), got, err)
}

func (s *telling) cancel(n, generation int) {
	words, err := s.Env.Cancel(s.Context(), 0, []job.Cancellation{{ID: s.ids[n], Generation: generation}})
	s.say(fmt.Sprintf("cancel %d", n), words, err)
}

func (s *telling) requeue(n, generation int) {
	words, err := s.Env.Requeue(s.Context(), 0,
		[]job.Job{{ID: s.ids[n], Generation: generation, Tier: job.Paid, Type: "X", Owner: "ann", Payload: []byte("{}"),
			MaxRetries: 2}})
	s.say(fmt.Sprintf("requeue %d", n), words, err)
}

func (s *telling) restore(all ...job.JournalRow) {
	for i := range all {
		all[i].Owner = "ann"
	}
	words, err := s.Env.Restore(s.Context(), 0, all, time.Now())
	s.say("restore", words, err)
}

// setWord changes a word of a text, if the job has that text: with a mutated script it may have none.
func (s *telling) setWord(of string, n int, name, value string) {
	_ = queuetest.EditText(s.Context(), s.Env.Redis, of, s.ids[n], queuetest.WithWord(of, name, value))
}

func (s *telling) age(set string, d time.Duration) { s.Env.Age(s.T, set, d) }

func (s *telling) look(w job.Watch) {
	found, err := s.Env.Reclaim(s.Context(), 0, w, 0)
	s.say("look "+string(w), found, err)
}

func (s *telling) drain(acknowledge bool) {
	s.age("outbox", time.Hour)
	for range 2 {
		out, err := s.Env.TakeOutbox(s.Context(), 0, 100)
		var got []string
		for _, o := range out {
			got = append(got, fmt.Sprintf("%s/%d %s attempt %d retries %d history %d", o.ID, o.Generation, o.Status, o.Attempt,
				o.RetryCount, len(o.Attempts)))
		}
		slices.Sort(got)
		s.say("take", got, err)
		if !acknowledge {
			continue
		}
		for _, o := range out {
			a := job.Ack{ID: o.ID, Generation: o.Generation, Attempt: o.Attempt, Status: o.Status}
			g, n := a, a
			g.Generation, n.Attempt = a.Generation+1, a.Attempt+1
			words, err := s.Env.Acknowledge(s.Context(), 0, []job.Ack{g, n, a, a})
			s.say(fmt.Sprintf("acknowledge %s", o.ID), words, err)
		}
	}
}

// forget tries to remove every job or, if all is false, only asks which jobs could go.
func (s *telling) forget(all bool) {
	var before int64
	if all {
		before = s.Env.Now(s.T)
	}
	slices := make([]string, len(s.ids))
	for i, id := range s.ids {
		slices[i] = queuetest.SliceOf(string(id))
	}
	gone, stayed, err := s.Env.Forget(s.Context(), 0, slices, before)
	s.say(fmt.Sprintf("forget, %d could go", len(stayed)), gone, err)
}

func (s *telling) tell() {
	s.leases = map[int]job.LeaseRef{}
	s.submit(2, job.Public, 0)
	s.submit(0, job.Paid, 0)
	s.submit(1, job.Paid, 0)
	s.submit(1, job.Paid, 0)
	s.submit(3, job.Unpaid, time.Minute)
	s.submit(4, job.Public, 0) // full
	s.once(5, "b")
	s.once(5, "b")
	s.once(6, "b") // replay
	s.once(6, "c") // mismatch
	s.claim(5, 2)
	s.claim(5, 2)
	s.claim(4, 2)
	s.submit(4, job.Paid, 0)
	s.write("heartbeat", 0)
	s.age("heartbeat_deadlines", time.Hour)
	s.write("heartbeat", 0)
	s.look(job.Crashed) // 1 is a suspect
	s.look(job.Crashed)
	s.write("heartbeat", 1)
	s.age("suspects:crashed", time.Minute)
	// The job expires again after that look, which was of an earlier deadline.
	s.Env.Redis.ZIncrBy(s.Context(), queue.Key(0, "heartbeat_deadlines"), -3_600_500, string(s.ids[1]))
	s.look(job.Crashed)
	s.age("suspects:crashed", time.Minute)
	s.age("heartbeat_deadlines", 2*time.Minute)
	s.look(job.Crashed) // taken back
	s.write("release", 1)
	s.write("complete", 0)
	s.write("fail", 0)
	s.next(1)
	s.save(1, 2, "half way")
	s.save(1, 1, "began")
	s.save(1, 3, "nearly there")
	s.write("fail", 1)
	s.write("release", 1)
	s.next(1)
	s.write("fail", 1)
	s.next(1)
	s.write("fail", 1) // spent
	s.write("complete", 1)
	s.requeue(1, 2) // busy
	s.next(2)
	s.write("later", 4)
	s.write("complete", 4)
	s.age("scheduled", time.Hour)
	n, err := s.Env.Promote(s.Context(), 0)
	s.say("promote", n, err)
	s.cancel(3, 1) // waiting
	s.cancel(4, 2) // another generation
	s.next(1)
	s.cancel(4, 1) // running
	s.requeue(4, 2)
	s.write("heartbeat", 4)
	s.write("release", 4)
	s.write("release", 2)
	s.next(1)
	s.cancel(2, 0)
	s.write("complete", 2)
	s.drain(false)
	s.drain(true)
	s.requeue(1, 2)
	s.requeue(1, 2)
	s.next(1)
	s.age("run_deadlines", time.Hour)
	s.look(job.Stuck)
	s.cancel(1, 2)
	s.age("suspects:stuck", time.Minute)
	s.age("run_deadlines", time.Hour)
	s.look(job.Stuck)
	s.write("complete", 1)
	s.drain(true)
	s.submit(0, job.Paid, 0) // it has ended
	s.submit(7, job.Paid, 0)
	s.twice(13, 14)
	s.quota(1, 11, 12)
	s.quota(1, 12)
	s.restore(living(s.ids[8]), living(s.ids[9], ran), living(s.ids[10], due))
	s.restore(living(s.ids[8]), living(s.ids[9], ran), living(s.ids[10], due))
	s.next(1) // 8, which arrived long before
	s.age("heartbeat_deadlines", time.Hour)
	s.look(job.Crashed)
	s.age("suspects:crashed", time.Minute)
	s.age("heartbeat_deadlines", time.Hour)
	s.look(job.Crashed)
	s.next(3)
	s.restore(living(s.ids[15], toCancel, due), living(s.ids[16], toCancel, ran))
	s.drain(true)
	s.age("heartbeat_deadlines", time.Hour)
	s.look(job.Crashed)
	s.age("suspects:crashed", time.Minute)
	s.age("heartbeat_deadlines", time.Hour)
	s.look(job.Crashed)
	s.later()
	s.unknown()
	s.operate()
	s.limits()
	s.forget(true) // all acknowledged jobs ended just now
	for _, id := range s.ids {
		if h := s.Env.Snapshot(s.T).Jobs[string(id)]; h["ended"] != "" {
			s.Env.AgeEnd(s.T, time.Hour, id)
		}
	}
	s.forget(false)
	s.forget(true)
	s.forget(true)
	s.requeue(1, 3) // SQL has all that a new generation needs
}

// later runs a job that asks for "later" more often than it may, until it has no retry left, and a job that asks
// for it too long after its first attempt.
func (s *telling) later() {
	again := func(number int) {
		s.write("later", number)
		s.age("scheduled", 1000*time.Hour)
		n, err := s.Env.Promote(s.Context(), 0)
		s.say("promote", n, err)
		s.next(20)
	}
	s.submit(17, job.Paid, 0)
	s.submit(18, job.Paid, 0)
	s.next(20)
	for range 4 { // once without a retry, then each time for a retry
		again(17)
	}
	s.setWord("leases", 18, "first", fmt.Sprint(s.Env.Now(s.T)-2*time.Hour.Milliseconds()))
	again(18)
	s.drain(true)
}

// unknown has a job that meets workers without a handler for its type: two in a row, then one that has it, then one
// that takes it and stops, and in the end none that has it within UnknownFor.
func (s *telling) unknown() {
	number := 25
	again := func(report string) {
		s.write(report, number)
		due := s.Env.Redis.ZScore(s.Context(), queue.Key(0, "scheduled"), string(s.ids[number])).Val()
		cause := s.Env.Snapshot(s.T).Jobs[string(s.ids[number])]["cause"]
		s.say("waits", fmt.Sprint(math.Round((due-float64(s.Env.Now(s.T)))/1000), " s, cause ", cause), nil)
		s.age("scheduled", 1000*time.Hour)
		n, err := s.Env.Promote(s.Context(), 0)
		s.say("promote", n, err)
		s.next(20)
	}
	since := func(ago time.Duration) {
		s.setWord("tried", number, "in_row", "2")
		s.setWord("tried", number, "since", fmt.Sprint(s.Env.Now(s.T)-ago.Milliseconds()))
	}
	s.submit(number, job.Paid, 0)
	s.next(20)
	again("unknown")
	again("unknown")
	again("later")
	again("unknown")
	for range 4 {
		s.write("return", number)
		s.next(20)
	}
	again("return")
	again("return")
	again("unknown")
	since(time.Minute)
	s.age("heartbeat_deadlines", time.Hour)
	s.look(job.Crashed)
	s.age("suspects:crashed", time.Minute)
	s.look(job.Crashed)
	s.next(20)
	again("unknown")
	since(2 * time.Hour)
	s.write("unknown", number)
	s.drain(true)
}

// limits submits jobs that reach each limit: of the number of jobs, of their bytes, and of the bytes of jobs
// delayed at submit.
func (s *telling) limits() {
	submit := func(bytes int, delay time.Duration, numbers ...int) {
		var batch []job.Submission
		for _, i := range numbers {
			batch = append(batch, job.Submission{
				ID: s.ids[i], Tier: job.Paid, Type: "X", Payload: []byte(strings.Repeat("1", bytes)), Delay: delay,
			})
		}
		words, err := s.Env.Words(s.Context(), 0, batch)
		s.say(fmt.Sprintf("submit %v, %d bytes each", numbers, bytes), words, err)
	}
	submit(600, time.Hour, 19, 20)
	s.cancel(19, 0)
	submit(1000, 0, 20, 21)
	s.cancel(20, 0)
	submit(0, 0, 22, 23, 24)
}

package queue_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// TestModel applies random steps to a queue and to the model. After each step words, leases, order and every job
// must agree, and the audit must find nothing. -rapid.checks sets the number of sequences.
func TestModel(t *testing.T) {
	t.Attr("proves", "S2-P13")
	t.Parallel()
	small := func(o *queue.Options) {
		o.Nonce, o.Capacity, o.ScheduledLimit, o.LivingLimit, o.LivingBytes, o.LaterLimit = "a", 10, 3, 14, 60, 2
		o.Queues, o.Serves = &job.QueueBook{}, serves["a"]
		o.Queues.Set([]job.Queue{{Name: "films", Limit: 2}, {Name: "a:b"}}) // 10/4 = 2
	}
	queuetest.EachWith(t, small, func(t *testing.T, e *queuetest.Env) {
		plans := job.DefaultPlans()
		for i := range plans { // deadlines pass only when the test moves them
			plans[i].HeartbeatTimeout, plans[i].MaxProcessingTime = 30*time.Minute, 30*time.Minute
			// The first crash of a PAID job makes a dead letter, that of an UNPAID one spends a retry.
			plans[i].MaxCrashes = []*int{new(0), nil, new(2)}[i]
		}
		e.Plans.Set(plans)
		processes := map[string]*queue.Queue{"a": e.Queue, "b": e.Process("b", serves["b"]...)}
		rapid.Check(t, func(r *rapid.T) {
			e.Empty(t)
			w := &walk{T: r, t: t, e: e, processes: processes, plans: plans, clock: e.Now(t) + 3_600_000,
				model:   &queuetest.Model{Plans: plans, Capacity: 10, Delayed: 3, Limit: 14, Bytes: 60, Later: 2, Queue: 2},
				numbers: map[string]int64{},
				sql:     map[job.ID][]job.Recorded{}}
			for range 40 {
				w.step()
				w.compare()
			}
		})
	})
}

// serves are the queues of the two processes.
var serves = map[string][]string{"a": {"main", "films"}, "b": {"a:b", "main", "films"}}

type walk struct {
	*rapid.T
	t         *testing.T
	e         *queuetest.Env
	processes map[string]*queue.Queue
	plans     []job.Plan
	model     *queuetest.Model
	leases    []queuetest.ModelLease // all leases that were ever handed out
	numbers   map[string]int64
	sql       map[job.ID][]job.Recorded // the acknowledged outcomes
	clock     int64
	saves     int // counts the checkpoints, so that each has a higher number
	did       string
}

var steps = []string{
	"submit", "submit", "submit", "claim", "claim", "claim", "claim by id", "claim by id", "heartbeat", "log", "complete",
	"complete", "fail", "fail",
	"release", "later", "unknown", "expire", "ripen", "look", "look",
	"promote", "expire jobs", "lapse",
	"cancel", "kill", "hasten", "requeue", "requeue", "restore", "restore", "drain", "drain", "audit", "forget",
}

func (w *walk) step() {
	w.did = rapid.SampledFrom(steps).Draw(w.T, "step")
	w.clock += 10
	switch w.did {
	case "submit":
		w.submit()
	case "claim":
		w.claim()
	case "claim by id":
		w.claimByID()
	case "heartbeat", "log", "complete", "fail", "release", "later", "unknown":
		w.write()
	case "expire", "ripen", "look":
		w.watch()
	case "promote":
		w.e.Age(w.t, "scheduled", time.Hour)
		got, err := w.e.Promote(w.t.Context(), 0)
		w.equal(err, got, w.model.Promote())
	case "expire jobs":
		got, err := w.e.Queue.Expire(w.t.Context(), 0)
		w.equal(err, got, w.model.Expire())
	case "lapse":
		w.lapse()
	case "cancel", "kill", "hasten", "requeue":
		w.operate()
	case "restore":
		w.restore()
	case "drain":
		w.drain()
	case "forget":
		w.forget()
	case "audit": // whatever happened, the audit finds nothing to repair
		w.equal(nil, pass(w.t, w.e.Queue, func(id job.ID) []job.Recorded { return w.sql[id] }), []job.Finding(nil))
	}
}

func (w *walk) equal(err error, got, want any) {
	w.Helper()
	if err != nil {
		w.Fatalf("%s: %v", w.did, err)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.Fatalf("%s: %v, want %v", w.did, got, want)
	}
}

func (w *walk) submit() {
	p := rapid.SampledFrom(w.plans).Draw(w.T, "tier")
	s := queuetest.Job(p.Tier)
	if rapid.IntRange(0, 4).Draw(w.T, "delayed") == 0 {
		s.Delay = time.Minute
	}
	if j := w.anyJob(); j != nil && rapid.IntRange(0, 6).Draw(w.T, "again") == 0 {
		s.ID = j.ID
	} else if j != nil && rapid.Bool().Draw(w.T, "the same slice") {
		s.ID = queuetest.MateOf(j.ID)
	}
	s.Queue = w.queue()
	s.Owner, s.Quota = w.owner(), rapid.SampledFrom([]int{0, 1, 3}).Draw(w.T, "quota")
	s.Payload = []byte(strings.Repeat("1", rapid.SampledFrom([]int{0, 2, 9}).Draw(w.T, "bytes")))
	w.unique(&s)
	s.ExpiresMs = w.expiry()
	w.arrive()
	got, err := w.e.Words(w.t.Context(), 0, []job.Submission{s, s}) // every submit is sent twice
	want := []job.Word{w.model.Submit(s, p, w.clock), w.model.Submit(s, p, w.clock)}
	w.equal(err, got, want)
}

// unique gives every other submit one of two unique keys.
func (w *walk) unique(s *job.Submission) {
	s.Unique = w.uniqueOption()
	ons := []job.UniqueOn{job.UniqueReturn, job.UniqueRefuse, job.UniqueReplace, job.UniqueReplace, job.UniqueAfter}
	if strings.Contains(s.Unique, ".s") {
		ons = ons[:2]
	}
	if s.Unique != "" {
		s.UniqueOn = rapid.SampledFrom(ons).Draw(w.T, "on")
	}
}

func (w *walk) uniqueOption() string {
	if rapid.Bool().Draw(w.T, "plain") {
		return ""
	}
	hash := strings.Repeat(rapid.SampledFrom([]string{"a", "b"}).Draw(w.T, "unique key"), 32)
	whiles := []job.UniqueWhile{job.WhileLiving, job.WhileLiving, job.WhileLiving, job.WhileWaiting, job.WhileWaiting}
	if rapid.IntRange(0, 9).Draw(w.T, "for seconds") == 0 {
		whiles = []job.UniqueWhile{job.WhileSeconds(time.Hour)}
	}
	return job.Unique(hash, rapid.SampledFrom(whiles).Draw(w.T, "while"))
}

func (w *walk) queue() string {
	return rapid.SampledFrom([]string{"", "", "films", "a:b"}).Draw(w.T, "queue")
}

func (w *walk) owner() string {
	return rapid.SampledFrom([]string{"", "ann", "bob"}).Draw(w.T, "owner")
}

// arrive sets the next arrival to a time of its own, equal on every backend.
func (w *walk) arrive() { w.e.Redis.Set(w.t.Context(), queue.Key(0, "clock"), w.clock, 0) }

func (w *walk) anyJob() *queuetest.ModelJob {
	if len(w.model.Jobs) == 0 {
		return nil
	}
	return rapid.SampledFrom(w.model.Jobs).Draw(w.T, "job")
}

func (w *walk) claim() {
	process := rapid.SampledFrom([]string{"a", "b"}).Draw(w.T, "process")
	number := w.numbers[process] + rapid.Int64Range(-1, 2).Draw(w.T, "number") // also the last one, and an older one
	if number < 1 {
		number = 1
	}
	w.numbers[process] = max(number, w.numbers[process])
	most := rapid.IntRange(1, 3).Draw(w.T, "most")
	reply, err := w.processes[process].Claim(w.t.Context(), 0,
		job.ClaimRequest{Number: number, Max: most, Bound: math.Inf(1)})
	want := w.model.Claim(process, serves[process], number, fmt.Sprintf("%s:%d", process, number), most)
	w.claimed(reply, err, want)
}

// claimByID claims for a worker elsewhere, through one of the processes. An id that was used before is a repeat.
func (w *walk) claimByID() {
	process := rapid.SampledFrom([]string{"a", "b"}).Draw(w.T, "process")
	e := &job.Elsewhere{
		Worker:   rapid.SampledFrom([]string{"w1", "key.w2"}).Draw(w.T, "worker"),
		ID:       rapid.SampledFrom([]string{"x", "y", "z"}).Draw(w.T, "id"),
		Repeat:   rapid.SampledFrom([]int{0, 1, 10}).Draw(w.T, "repeat"),
		Delivery: rapid.SampledFrom([]string{"1", "2", "3"}).Draw(w.T, "delivery"),
		Queues:   rapid.SampledFrom([][]string{{"films"}, {"main", "a:b"}, {"films", "main"}}).Draw(w.T, "queues"),
		ByName:   rapid.Bool().Draw(w.T, "by name"),
		Lease:    time.Hour, Low: math.Inf(-1),
	}
	least, most := rapid.IntRange(0, 2).Draw(w.T, "least"), rapid.IntRange(1, 3).Draw(w.T, "most")
	if least > 0 {
		e.Low = float64(int64(least) * w.e.Options.PriorityBase)
	}
	reply, err := w.processes[process].Claim(w.t.Context(), 0,
		job.ClaimRequest{Max: most, Bound: math.Inf(1), Elsewhere: e})
	w.claimed(reply, err, w.model.ClaimByID(e, most, least))
}

func (w *walk) claimed(reply job.ClaimReply, err error, want []queuetest.ModelLease) {
	w.Helper()
	var got, expected []string
	for _, l := range reply.Leases {
		got = append(got, fmt.Sprintf("%s attempt %d retries %d of %d crashes %d by %s", l.ID, l.Attempt, l.RetryCount,
			l.MaxRetries, l.Crashes, l.Token))
	}
	for _, l := range want {
		expected = append(expected, fmt.Sprintf("%s attempt %d retries %d of %d crashes %d by %s", l.Job.ID, l.Attempt,
			l.Retries, l.Job.Max, l.Crashes, l.Token))
	}
	w.equal(err, got, expected)
	w.leases = append(w.leases, want...)
}

func (w *walk) write() {
	if len(w.leases) == 0 {
		return
	}
	l := rapid.SampledFrom(w.leases).Draw(w.T, "lease")
	switch rapid.IntRange(0, 8).Draw(w.T, "forged") { // a wrong token, or a wrong attempt
	case 0:
		l.Token = "forged:1"
	case 1:
		l.Attempt++
	}
	ref := job.LeaseRef{ID: l.Job.ID, Attempt: l.Attempt, Token: l.Token}
	var got []job.EndReply
	var words []job.Word
	var err error
	var final, delayed bool
	switch w.did {
	case "log":
		w.log(l, ref)
		return
	case "heartbeat":
		beat := job.Beat{LeaseRef: ref, Timeout: time.Hour}
		if rapid.Bool().Draw(w.T, "tells") {
			beat.Step, beat.Progress =
				int64(rapid.IntRange(1, 9).Draw(w.T, "step of progress")), job.NewProgress(w.clock, 0, "a b")
		}
		if rapid.Bool().Draw(w.T, "saves") {
			w.saves++
			beat.Save, beat.Checkpoint = w.saves, []byte(strings.Repeat("c", rapid.IntRange(1, 9).Draw(w.T, "checkpoint")))
		}
		words, err = w.e.Heartbeat(w.t.Context(), 0, []job.Beat{beat})
		want := w.model.Heartbeat(l, len(beat.Checkpoint))
		if w.equal(err, words, []job.Word{want}); want != job.Lost {
			l.Tell(beat.Step, w.clock)
		}
		return
	case "fail":
		final, delayed = rapid.IntRange(0, 5).Draw(w.T, "final") == 0, rapid.Bool().Draw(w.T, "backoff")
		f := job.Failure{LeaseRef: ref, Cause: job.HandlerError, Error: "no", Final: final}
		if delayed {
			f.Delay = time.Minute
		}
		got, err = w.e.Fail(w.t.Context(), 0, []job.Failure{f, f})
	default:
		got, err = writes[w.did](w.t.Context(), w.e.Queue, ref, ref)
	}
	for _, g := range got {
		words = append(words, g.Word)
	}
	w.equal(err, words, []job.Word{w.model.End(w.did, l, final, delayed), w.model.End(w.did, l, final, delayed)})
}

// log adds lines, or says that lines are lost, twice: of numbers that the log has, that follow, or that leave a gap.
func (w *walk) log(l queuetest.ModelLease, ref job.LeaseRef) {
	var batch []job.LogEntry
	var want []job.Word
	for range rapid.IntRange(1, 3).Draw(w.T, "lines") {
		e := job.LogEntry{LeaseRef: ref, Number: rapid.IntRange(0, 9).Draw(w.T, "number"), Level: "INFO", Text: "hi"}
		lost := rapid.IntRange(0, 3).Draw(w.T, "lost") == 0
		if lost {
			e.Level = ""
		}
		batch = append(batch, e, e)
		want = append(want, w.model.AddLine(l, e.Number, lost), w.model.AddLine(l, e.Number, lost))
	}
	got, err := w.e.Queue.Log(w.t.Context(), 0, batch)
	w.equal(err, got, want)
}

func (w *walk) watch() {
	watch := rapid.SampledFrom(watches).Draw(w.T, "watch")
	set := queue.Key(0, map[job.Watch]string{job.Crashed: "heartbeat_deadlines", job.Stuck: "run_deadlines"}[watch])
	switch w.did {
	case "expire":
		if j := w.anyJob(); j != nil && j.State == job.Processing && !j.Expired(watch) {
			w.e.Redis.ZAdd(w.t.Context(), set, redis.Z{Score: float64(w.e.Now(w.t) - 1), Member: string(j.ID)})
			j.Expire(watch)
		}
	case "ripen":
		for _, j := range w.model.Jobs {
			if j.Expired(watch) {
				w.e.Redis.ZIncrBy(w.t.Context(), set, -10_000, string(j.ID))
			}
		}
		w.e.Age(w.t, "suspects:"+string(watch), 10*time.Second)
		w.model.Ripen(watch)
	case "look":
		w.equal(nil, w.e.Look(w.t, watch), w.model.Look(watch))
	}
}

func (w *walk) operate() {
	j := w.anyJob()
	if j == nil {
		return
	}
	switch w.did {
	case "cancel":
		c := job.Cancellation{ID: j.ID,
			Generation: rapid.SampledFrom([]int{0, 0, j.Generation, j.Generation + 1}).Draw(w.T, "generation")}
		got, err := w.e.Cancel(w.t.Context(), 0, []job.Cancellation{c, c})
		w.equal(err, got, []job.Word{w.model.CancelJob(j, c.Generation), w.model.CancelJob(j, c.Generation)})
		return
	case "kill":
		k := job.Killing{ID: j.ID, Reason: "no use",
			Generation: rapid.SampledFrom([]int{j.Generation, j.Generation, j.Generation + 1}).Draw(w.T, "generation")}
		got, err := w.e.Kill(w.t.Context(), 0, []job.Killing{k, k})
		w.equal(err, got, []job.Word{w.model.KillJob(j, k.Generation), w.model.KillJob(j, k.Generation)})
		return
	case "hasten":
		got, err := w.e.Hasten(w.t.Context(), 0, []job.ID{j.ID, j.ID})
		w.equal(err, got, []job.Word{w.model.HastenJob(j), w.model.HastenJob(j)})
		return
	}
	generation := j.Generation + rapid.IntRange(0, 1).Draw(w.T, "generation")
	next := job.Job{
		ID: j.ID, Generation: generation, Tier: j.Plan.Tier, Owner: j.Owner, MaxRetries: j.Max, Type: "SIMULATION",
		Payload: []byte(strings.Repeat("1", j.Payload)),
	}
	if j.Queue != job.MainQueue {
		next.Queue = j.Queue
	}
	next.Unique, next.ExpiresMs = j.Unique, j.Expires
	w.arrive()
	got, err := w.e.Requeue(w.t.Context(), 0, []job.Job{next, next})
	w.equal(err, got, []job.Word{w.model.Requeue(j, generation, w.clock), w.model.Requeue(j, generation, w.clock)})
}

// restore restores a job that waited, was delayed or ran: one that Redis lacks, or one that it has, in the same or
// the next generation.
func (w *walk) restore() {
	p := rapid.SampledFrom(w.plans).Draw(w.T, "tier")
	l := job.JournalRow{Priority: p.Priority, Job: job.Job{
		ID: queuetest.NewID(0), Generation: 1, Tier: p.Tier, Owner: w.owner(), Type: "SIMULATION", Payload: []byte("{}"),
		MaxRetries: 2, ArrivedAt: time.UnixMilli(w.clock),
	}}
	l.Queue, l.Unique, l.ExpiresMs = w.queue(), w.uniqueOption(), w.expiry()
	if j := w.anyJob(); j != nil && rapid.Bool().Draw(w.T, "known") {
		l.ID, l.Generation, l.Attempt = j.ID, j.Generation+rapid.IntRange(0, 1).Draw(w.T, "generation"), j.Attempt
	}
	now := time.UnixMilli(w.e.Now(w.t))
	switch kind := rapid.SampledFrom([]string{"new", "tried", "ran", "delayed"}).Draw(w.T, "kind"); kind {
	case "tried", "ran":
		l.Attempt, l.RetryCount, l.FirstTriedAt = l.Attempt+2, rapid.IntRange(0, 2).Draw(w.T, "retries"),
			now.Add(-time.Minute)
		l.Crashes = rapid.IntRange(0, 2).Draw(w.T, "crashes")
		if kind == "ran" {
			l.StartedAt, l.Worker = now.Add(-time.Second), "dead"
			l.Token = rapid.SampledFrom([]string{"", "alive:c1.0-a"}).Draw(w.T, "token")
		}
	case "delayed":
		l.RunAt = now.Add(time.Minute)
	}
	switch rapid.IntRange(0, 5).Draw(w.T, "to end") {
	case 0:
		l.CancelRequested = true
	case 1:
		l.CancelRequested, l.KillReason = true, "no use"
	}
	got, err := w.e.Restore(w.t.Context(), 0, []job.JournalRow{l, l}, time.Now())
	want := []job.Word{w.model.Restore(l, p), w.model.Restore(l, p)}
	w.equal(err, got, want)
	if want[0] == job.OK && l.Token != "" && l.KillReason == "" {
		at := slices.IndexFunc(w.model.Jobs, func(j *queuetest.ModelJob) bool { return j.ID == l.ID })
		w.leases = append(w.leases, queuetest.ModelLease{Job: w.model.Jobs[at], Attempt: l.Attempt, Token: l.Token})
	}
}

// drain takes all outcomes and acknowledges some of them: the others stay with this taker.
func (w *walk) drain() {
	w.e.Age(w.t, "outbox", time.Hour)
	out, err := w.e.TakeOutbox(w.t.Context(), 0, 100)
	slices.SortFunc(out, func(a, b job.Outcome) int { return strings.Compare(string(a.ID), string(b.ID)) })
	var got, want []string
	for _, o := range out {
		laters := 0
		for _, a := range o.Attempts {
			if a.Outcome == "LATER" && a.Error == notYet && a.Until.Equal(a.FinishedAt.Add(time.Hour)) {
				laters++
			}
		}
		done := ""
		if o.Progress != nil {
			done = strconv.FormatInt(o.Progress.Done, 10)
		}
		got = append(got, fmt.Sprintf("%s/%d %s attempt %d retries %d history %d laters %d done %q log %v",
			o.ID, o.Generation, o.Status, o.Attempt, o.RetryCount, len(o.Attempts), laters, done, queuetest.WroteLog(o.Log)))
	}
	for _, j := range w.model.Jobs {
		if j.InOutbox {
			want = append(want, fmt.Sprintf("%s/%d %s attempt %d retries %d history %d laters %d done %q log %v",
				j.ID, j.Generation, j.State.Shown(), j.Attempt, j.Retries, j.History, j.Laters, j.Done, j.Log))
		}
	}
	slices.Sort(want)
	w.equal(err, got, want)
	for _, o := range out {
		if rapid.IntRange(0, 2).Draw(w.T, "acknowledge") == 0 {
			continue
		}
		i := slices.IndexFunc(w.model.Jobs, func(j *queuetest.ModelJob) bool { return j.ID == o.ID })
		a := job.Ack{ID: o.ID, Generation: o.Generation, Attempt: o.Attempt, Status: o.Status}
		w.sql[o.ID] = append(w.sql[o.ID], job.Recorded{Generation: o.Generation, Status: o.Status})
		got, err := w.e.Acknowledge(w.t.Context(), 0, []job.Ack{a, a})
		w.equal(err, got, []job.Word{w.model.Acknowledge(w.model.Jobs[i], a.Generation, a.Attempt),
			w.model.Acknowledge(w.model.Jobs[i], a.Generation, a.Attempt)})
	}
}

// forget ages the end of a job, or not, and tries to remove the job twice.
func (w *walk) forget() {
	j := w.anyJob()
	if j == nil {
		return
	}
	if j.State.Ended() && rapid.Bool().Draw(w.T, "aged") {
		w.e.AgeEnd(w.t, time.Hour, j.ID)
		j.Aged = true
	}
	var before int64
	all := rapid.Bool().Draw(w.T, "all")
	if all {
		before = w.e.Now(w.t)
	}
	slice := queuetest.SliceOf(string(j.ID))
	got, stayed, err := w.e.Forget(w.t.Context(), 0, []string{slice, slice}, before)
	gone, could := w.model.Forget(slice, all)
	want := []int{gone, 2 * (could - gone)}
	w.equal(err, []int{got, len(stayed)}, want)
}

// compare compares every job and the order of the queue with the model, and runs the audit.
func (w *walk) compare() {
	w.Helper()
	snap := w.e.Snapshot(w.t)
	if len(snap.Jobs) != len(w.model.Jobs) {
		w.Fatalf("after %s: %d jobs, want %d", w.did, len(snap.Jobs), len(w.model.Jobs))
	}
	for _, j := range w.model.Jobs {
		h := snap.Jobs[string(j.ID)]
		done := ""
		if p := strings.Split(h["progress"], ":"); len(p) == 5 {
			done = p[2]
		}
		w.equal(nil, fmt.Sprintf("%s/%s %s attempt %d retries %d cancel %v tried %v crashes %d done %q log %v", j.ID,
			h["generation"], snap.State(j.ID), count(h["attempt"]), count(h["retries"]), h["cancel"] != "", h["first"] != "",
			count(h["crashes"]), done, queuetest.WroteLog(snap.Logs[string(j.ID)])),
			fmt.Sprintf("%s/%d %s attempt %d retries %d cancel %v tried %v crashes %d done %q log %v", j.ID, j.Generation,
				j.State, j.Attempt, j.Retries, j.Cancel && !j.State.Ended(), j.Tried, j.LivingCrashes(), j.Done, j.Log))
	}
	for _, owner := range []string{"ann", "bob"} {
		w.equal(nil, snap.Owners[owner], w.model.Living(owner))
	}
	for _, name := range serves["b"] {
		var want []string
		for _, j := range w.model.Ready(name) {
			want = append(want, string(j.ID))
		}
		scores := snap.Queue(name)
		got := slices.SortedFunc(maps.Keys(scores), func(a, b string) int {
			return cmp.Or(cmp.Compare(scores[a], scores[b]), strings.Compare(a, b))
		})
		if !slices.Equal(got, want) {
			w.Fatalf("after %s: the queue %s is %v, want %v", w.did, name, got, want)
		}
	}
	if wrong := snap.Audit(); len(wrong) > 0 {
		w.Fatalf("after %s: %s", w.did, strings.Join(wrong, "\n"))
	}
}

// count reads a number of the compact hash; an absent field is 0.
func count(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

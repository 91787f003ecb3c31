package sandbox

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
)

func TestMain(m *testing.M) {
	queue.LogTo(slog.New(slog.DiscardHandler)) // errors of connections that a scenario cuts
	goleak.VerifyTestMain(m)
}

// follow returns the events of a box until the scenario is over.
func follow(t *testing.T, b *Box) []Event {
	t.Helper()
	var all []Event
	for seen := int64(0); ; {
		events, more, closed := b.Events(seen)
		for _, e := range events {
			all, seen = append(all, e), e.ID
			if e.Kind == Done {
				return all
			}
		}
		if closed {
			t.Fatal("the box was stopped")
		}
		<-more
	}
}

// shows reports whether the event's snapshot has an entry of a key.
func (e *Event) shows(key, entry string) bool {
	return slices.ContainsFunc(e.Snapshot, func(s State) bool {
		return s.Key == key && slices.ContainsFunc(s.Entries, func(e Entry) bool { return e.Name == entry })
	})
}

func stop(t *testing.T, b *Box) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := b.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// played plays a scenario to its end, in virtual time, and returns its events.
func played(t *testing.T, scenario string) (events story) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := New(Options{})
		defer stop(t, b)
		if err := b.Play(t.Context(), scenario); err != nil {
			t.Fatal(err)
		}
		events = follow(t, b)
	})
	first, last := events[0], events[len(events)-1]
	if last.Error != "" {
		for _, e := range events {
			t.Logf("%6s %-16s %-8s %s %d %s %s", e.At.Sub(first.At), e.Kind, e.Tier, e.Job, e.Attempt, e.Worker, e.Note)
		}
		t.Fatalf("%s: %s", scenario, last.Error)
	}
	if first.Kind != Began || first.Scenario != scenario || last.Scenario != scenario {
		t.Errorf("from %+v to %+v", first, last)
	}
	if took := last.At.Sub(first.At); took < 3*time.Second || took > 15*time.Second {
		t.Errorf("%s takes %s", scenario, took)
	}
	for i, e := range events {
		if e.ID != int64(i+1) || e.At.IsZero() {
			t.Errorf("event %d has id %d and time %s", i+1, e.ID, e.At)
		}
		if e.Kind == Caption {
			if _, err := os.Stat("../../" + e.File); err != nil || e.Note == "" {
				t.Errorf("caption %q: %v", e.Note, err)
			}
		}
		if e.Job != "" && e.Kind != JobRefused &&
			(e.Script == "" || len(e.Keys) == 0 || len(e.Snapshot) == 0 || e.Tier == "") {
			t.Errorf("%s does not say what made it happen: %+v", e.Kind, e)
		}
	}
	return events
}

type story []Event

// at returns the index of the first matching event of a kind, from an index on.
func (s story) at(t *testing.T, from int, kind Kind, match func(e *Event) bool) int {
	t.Helper()
	for i := from; i < len(s); i++ {
		if s[i].Kind == kind && match(&s[i]) {
			return i
		}
	}
	t.Fatalf("no %s from event %d on", kind, from+1)
	return 0
}

// of is at for the events of a job.
func (s story) of(t *testing.T, from int, kind Kind, id job.ID) int {
	t.Helper()
	return s.at(t, from, kind, func(e *Event) bool { return e.Job == id })
}

// score returns a job's score in the queue, from the event's snapshot; "" = not in the queue.
func (e *Event) score(id job.ID) string {
	for _, state := range e.Snapshot {
		if state.Key != queue.Key(0, "queue") {
			continue
		}
		for _, entry := range state.Entries {
			if entry.Name == string(id) {
				return entry.Value
			}
		}
	}
	return ""
}

// jobs returns the accepted jobs of a tier in order.
func (s story) jobs(t job.Tier) (ids []job.ID) {
	for i := range s {
		if s[i].Kind == JobAccepted && s[i].Tier == t {
			ids = append(ids, s[i].Job)
		}
	}
	return ids
}

func isTier(t job.Tier) func(e *Event) bool { return func(e *Event) bool { return e.Tier == t } }

func TestHappy(t *testing.T) {
	t.Parallel()
	s := played(t, "happy")
	for _, tier := range []job.Tier{job.Paid, job.Unpaid, job.Public} {
		id := s.jobs(tier)[0]
		at := 0
		for _, step := range []struct {
			kind   Kind
			script string
		}{{JobAccepted, "submit"}, {QueuePushed, "submit"}, {JobClaimed, "claim"}, {JobCompleted, "complete"},
			{JobArchived, "acknowledge"}} {
			at = s.of(t, at, step.kind, id)
			if s[at].Script != step.script {
				t.Errorf("%s by %q", step.kind, s[at].Script)
			}
			// A job that ends leaves its own key for the slice of ended jobs.
			ended := step.kind == JobCompleted || step.kind == JobArchived
			if s[at].shows(queue.JobKey(id), "") == ended || s[at].shows(queue.EndedKey(id), string(id)) != ended {
				t.Errorf("%s: the snapshot has %+v", step.kind, s[at].Snapshot)
			}
		}
		if took := s[at].At.Sub(s[s.of(t, 0, JobCompleted, id)].At); took >= queue.OutboxLead {
			t.Errorf("it took %s to the archive: not the short way", took)
		}
		for _, key := range []string{queue.JobKey(id), queue.EndedKey(id)} {
			if !slices.Contains(s[at].Keys, key) {
				t.Errorf("keys %q, without the job's %s", s[at].Keys, key)
			}
		}
	}
	cancelled := s.jobs(job.Unpaid)[1]
	at := s.of(t, 0, JobCancelled, cancelled)
	if s[at].Script != "cancel" {
		t.Errorf("cancelled by %q", s[at].Script)
	}
	if at = s.of(t, at, JobArchived, cancelled); s[at].Note != "job_outcomes" {
		t.Errorf("a cancelled job in %q", s[at].Note)
	}
}

func TestOvertake(t *testing.T) {
	t.Parallel()
	s := played(t, "overtake")
	paid := s.jobs(job.Paid)[0]
	accepted, claimed := s.of(t, 0, JobAccepted, paid), s.of(t, 0, JobClaimed, paid)
	overtaken := 0
	for _, id := range s.jobs(job.Public) {
		if s.of(t, 0, JobAccepted, id) > accepted {
			t.Errorf("%s came after the PAID job", id)
		}
		if s.of(t, 0, JobClaimed, id) > claimed {
			overtaken++
		}
	}
	if overtaken != 6 {
		t.Errorf("PAID overtook %d", overtaken)
	}
}

func TestCrash(t *testing.T) {
	t.Parallel()
	s := played(t, "crash")
	victim, younger := s.jobs(job.Public)[0], s.jobs(job.Public)[1:]
	pushed := s.of(t, 0, QueuePushed, victim)
	claimed := s.of(t, pushed, JobClaimed, victim)
	expired := s.of(t, claimed, LeaseExpired, victim)
	requeued := s.of(t, expired, JobRequeued, victim)
	again := s.of(t, requeued, JobClaimed, victim)
	completed := s.of(t, again, JobCompleted, victim)
	lost := s.of(t, completed, LeaseLost, victim)
	if before, after := s[pushed].score(victim), s[requeued].score(victim); before == "" || before != after {
		t.Errorf("score %q before and %q after", before, after)
	}
	if s[claimed].Worker != "worker-a" || s[completed].Worker != "worker-b" || s[completed].Attempt != 2 ||
		s[lost].Worker != "worker-a" || s[lost].Attempt != 1 {
		t.Errorf("claimed by %s, completed by %s as attempt %d, lost by %s", s[claimed].Worker, s[completed].Worker,
			s[completed].Attempt, s[lost].Worker)
	}
	if s[requeued].At.Sub(s[expired].At) < queue.Patience {
		t.Error("one look was enough")
	}
	waited := 0
	for _, id := range younger {
		if s.of(t, 0, JobAccepted, id) > requeued {
			t.Errorf("%s came after the recovery", id)
		}
		if s.of(t, 0, JobClaimed, id) > again {
			waited++
		}
		if at := slices.IndexFunc(s, func(e Event) bool {
			return e.Job == id &&
				(e.Kind == LeaseExpired || e.Kind == JobRequeued)
		}); at >= 0 {
			t.Errorf("the bystander %s had a %s", id, s[at].Kind)
		}
	}
	if waited == 0 {
		t.Error("nobody waited behind it: its old place shows nothing")
	}
}

func TestHang(t *testing.T) {
	t.Parallel()
	s := played(t, "hang")
	unheard, heard := s.jobs(job.Public)[0], s.jobs(job.Public)[1]
	if at := s.of(t, 0, JobRequeued, heard); s[at].Script != "fail" || s[at].Worker != "worker-b" ||
		!strings.Contains(s[at].Note, string(job.MaxTimeExceeded)) {
		t.Errorf("%+v", s[at])
	}
	at := s.of(t, 0, LeaseExpired, unheard)
	beat := s.of(t, 0, LeaseBeat, unheard)
	if s[at].Script != "reclaim" || beat > at {
		t.Errorf("expired at %d, the first beat was at %d", at, beat)
	}
	if at = s.of(t, at, JobRequeued, unheard); s[at].Script != "reclaim" ||
		!strings.Contains(s[at].Note, string(job.MaxTimeExceeded)) {
		t.Errorf("%+v", s[at])
	}
	for _, id := range []job.ID{heard, unheard} {
		if at := s.of(t, 0, JobCompleted, id); s[at].Attempt != 2 {
			t.Errorf("%s completed as attempt %d", id, s[at].Attempt)
		}
	}
}

func TestDead(t *testing.T) {
	t.Parallel()
	s := played(t, "dead")
	id := s.jobs(job.Public)[0]
	at := s.of(t, 0, JobScheduled, id)
	at = s.of(t, at, QueuePushed, id)
	at = s.of(t, at, JobDead, id)
	if s[at].Attempt != 2 || s[at].Script != "fail" {
		t.Errorf("%+v", s[at])
	}
	if at = s.of(t, at, JobArchived, id); s[at].Note != "failed_jobs" {
		t.Errorf("in %q", s[at].Note)
	}
	if at = s.of(t, at, JobRequeued, id); s[at].Script != "restore" {
		t.Errorf("by %q", s[at].Script)
	}
	if at = s.of(t, at, JobCompleted, id); s[at].Attempt != 3 {
		t.Errorf("as attempt %d", s[at].Attempt)
	}
	if at = s.of(t, at, JobArchived, id); s[at].Note != "job_results" {
		t.Errorf("in %q", s[at].Note)
	}
}

func TestFull(t *testing.T) {
	t.Parallel()
	s := played(t, "full")
	retry := s.jobs(job.Public)[0]
	refused := s.at(t, 0, JobRefused, isTier(job.Public))
	paid := s.at(t, refused, JobAccepted, isTier(job.Paid))
	entered := s.at(t, paid, QueuePushed, func(e *Event) bool { return e.Job == retry && e.Script == "promote" })
	again := s.at(t, entered, JobRefused, isTier(job.Public))
	s.of(t, again, JobCompleted, retry)
	share := Limit * 60 / 100
	most := 0
	for _, e := range s[:again] {
		if e.Capacity == nil {
			continue
		}
		most = max(most, e.Capacity.Used)
	}
	if accepted := len(s.jobs(job.Public)) - 1; accepted != share || most != share+1 { // and the PAID job
		t.Errorf("%d PUBLIC jobs accepted, %d taken at most", accepted, most)
	}
	if s[entered].score(retry) == "" {
		t.Error("the retry is not in the queue")
	}
}

func TestOutage(t *testing.T) {
	t.Parallel()
	s := played(t, "outage")
	gate := func(open bool, note string) func(e *Event) bool {
		return func(e *Event) bool { return e.Gate.Open == open && strings.Contains(e.Note, note) }
	}
	kept := s.jobs(job.Unpaid)[0]
	closed := s.at(t, s.of(t, 0, JobAccepted, kept), GateChanged, gate(false, "closed"))
	if s[closed].Gate.Failures < 3 || s[closed].Gate.Reason == "" {
		t.Errorf("%+v", s[closed].Gate)
	}
	probed := s.at(t, closed, GateChanged, gate(false, "probe"))
	open := s.at(t, probed, GateChanged, gate(true, ""))
	s.at(t, 0, JobRefused, func(*Event) bool { return true })
	for _, e := range s[closed:open] {
		if e.Kind == JobAccepted {
			t.Errorf("%s while the gate was closed", e.Kind)
		}
	}
	s.of(t, s.of(t, probed, JobClaimed, kept), JobCompleted, kept) // the gate stops submits, not the workers
	s.of(t, s.at(t, open, JobAccepted, isTier(job.Paid)), JobCompleted, s.jobs(job.Paid)[1])
}

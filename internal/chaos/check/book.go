package check

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// book is the evidence, sorted by job and by submit.
type book struct {
	Evidence
	jobs    map[job.ID]*entry
	order   []job.ID  // the ids of jobs, sorted: two reports of one run are the same
	submits []*submit // in the order in which they were first sent
	byKey   map[string]*submit
	byTrace map[string][]*submit
	batches map[string]*batchOps // by name
	amnesia []Fault              // the faults that made Redis forget
	// keepsAttempts: none of these faults made the servers forget the number of an attempt.
	keepsAttempts bool
	twice         map[life]bool // generations that ended in two ways
	replaced      map[life]bool // generations whose second end was shown before SQL had the first one
	report        Report
}

// submit is what a client asked for under one key, with one request or several.
type submit struct {
	*Op            // the first request
	ops   []*Op    // all requests
	fate  Fate     // OK if any request was answered so, else Unknown if any has an unknown fate
	jobs  []job.ID // its jobs, as the stores and the handlers know them: more than one is a violation
	named []job.ID // the ids that the client was told
}

func (s *submit) exists() bool { return len(s.jobs) > 0 }

// entry has everything about one job.
type entry struct {
	id                job.ID
	submit            *submit // nil: nothing says which submit made the job
	trace             string
	callback          bool // the server made it: a CALLBACK job
	cancels, requeues []*Op
	runs              []Run                 // by generation, attempt and time
	calls             map[int][]*WorkerCall // by lease, each by the time of sending
	outcomes          []Outcome             // by generation
	polls             []*Poll               // by the time of the answer
	live              job.Status
	liveGeneration    int
}

func newBook(e Evidence) *book {
	b := &book{
		Evidence: e, jobs: map[job.ID]*entry{}, byKey: map[string]*submit{}, byTrace: map[string][]*submit{},
		batches: map[string]*batchOps{},
		twice:   map[life]bool{}, replaced: map[life]bool{},
		report: Report{Explained: map[string]int{}, Landed: map[string]int{}},
	}
	for _, f := range e.Faults {
		if f.ForgetsAcked {
			b.amnesia = append(b.amnesia, f)
		}
	}
	b.keepsAttempts = !slices.ContainsFunc(b.amnesia, func(f Fault) bool { return !f.Keeps.Attempts })
	b.readSchedules()
	b.readOps()
	for i := range e.Runs {
		j := b.job(e.Runs[i].ID)
		j.runs = append(j.runs, e.Runs[i])
	}
	for i := range e.Calls {
		c := &e.Calls[i]
		j := b.job(c.ID)
		if j.calls == nil {
			j.calls = map[int][]*WorkerCall{}
		}
		j.calls[c.Lease] = append(j.calls[c.Lease], c)
	}
	for _, o := range e.Outcomes {
		j := b.job(o.ID)
		j.outcomes = append(j.outcomes, o)
		j.trace, j.callback = cmp.Or(j.trace, o.Trace), j.callback || o.Type == "CALLBACK"
	}
	for i := range e.Polls {
		if j, ok := b.jobs[e.Polls[i].ID]; ok {
			j.polls = append(j.polls, &e.Polls[i])
		}
	}
	for id, text := range e.Live {
		j := b.job(id)
		status, generation, _ := strings.Cut(text, " ")
		j.live = job.Status(status).Shown()
		j.liveGeneration, _ = strconv.Atoi(generation)
	}
	slices.Sort(b.order)
	for _, id := range b.order {
		b.jobs[id].sort()
		b.attribute(b.jobs[id])
	}
	return b
}

func (b *book) job(id job.ID) *entry {
	j, ok := b.jobs[id]
	if !ok {
		j = &entry{id: id}
		b.jobs[id] = j
		b.order = append(b.order, id)
	}
	return j
}

func (b *book) readOps() {
	for i := range b.Ops {
		op := &b.Ops[i]
		switch op.Kind {
		case "cancel":
			j := b.job(op.ID)
			j.cancels = append(j.cancels, op)
			continue
		case "requeue":
			j := b.job(op.ID)
			j.requeues = append(j.requeues, op)
			continue
		case MakeBatch, SealBatch, CancelBatch:
			b.readBatchOp(op)
			continue
		}
		s, ok := b.byKey[op.Key]
		if !ok {
			s = &submit{Op: op, fate: Fail}
			b.byKey[op.Key] = s
			b.submits = append(b.submits, s)
		}
		if !ok || !slices.Contains(b.byTrace[op.Trace], s) {
			b.byTrace[op.Trace] = append(b.byTrace[op.Trace], s)
		}
		s.ops = append(s.ops, op)
		if op.Fate == OK || op.Fate == Unknown && s.fate == Fail {
			s.fate = op.Fate
		}
		if op.ID != "" && op.Fate != Fail && !op.Unique.StandIn {
			b.job(op.ID).submit = s
			if op.Fate == OK && !slices.Contains(s.named, op.ID) {
				s.named = append(s.named, op.ID)
			}
		}
	}
}

func (j *entry) sort() {
	slices.SortStableFunc(j.runs, func(x, y Run) int {
		return cmp.Or(cmp.Compare(x.Generation, y.Generation), cmp.Compare(x.Attempt, y.Attempt), x.Began.Compare(y.Began))
	})
	slices.SortStableFunc(j.outcomes, func(x, y Outcome) int { return cmp.Compare(x.Generation, y.Generation) })
	for _, calls := range j.calls {
		slices.SortStableFunc(calls, func(x, y *WorkerCall) int { return x.Sent.Compare(y.Sent) })
	}
	slices.SortStableFunc(j.polls, func(x, y *Poll) int { return x.At.Compare(y.At) })
}

// attribute finds the submit that made a job: the client was told the id, or a handler recorded the key, or only
// one submit has the job's trace id.
func (b *book) attribute(j *entry) {
	if j.submit == nil && len(j.runs) > 0 {
		j.submit = b.byKey[j.runs[0].Key]
	}
	if same := b.byTrace[j.trace]; j.submit == nil && j.trace != "" && len(same) == 1 {
		j.submit = same[0]
	}
	if j.submit != nil && j.exists() {
		j.submit.jobs = append(j.submit.jobs, j.id)
	}
}

// exists says whether a store or a handler has seen the job.
func (j *entry) exists() bool { return len(j.outcomes) > 0 || len(j.runs) > 0 || j.live != "" }

// lives says whether Redis has the job and the job has not ended there.
func (j *entry) lives() bool { return j.live != "" && !j.live.Ended() }

// generations returns the highest generation that any store or handler has seen.
func (j *entry) generations() int {
	most := j.liveGeneration
	for i := range j.outcomes {
		most = max(most, j.outcomes[i].Generation)
	}
	for i := range j.runs {
		most = max(most, j.runs[i].Generation)
	}
	return most
}

func (j *entry) outcome(generation int) *Outcome {
	for i := range j.outcomes {
		if j.outcomes[i].Generation == generation {
			return &j.outcomes[i]
		}
	}
	return nil
}

// of returns the runs of one generation.
func (j *entry) of(generation int) []Run {
	from := slices.IndexFunc(j.runs, func(r Run) bool { return r.Generation == generation })
	if from < 0 {
		return nil
	}
	to := from
	for to < len(j.runs) && j.runs[to].Generation == generation {
		to++
	}
	return j.runs[from:to]
}

// span returns the first and the last time at which the evidence shows the job.
func (j *entry) span() (first, last time.Time) {
	see := func(t time.Time) {
		if t.IsZero() {
			return
		}
		if first.IsZero() || t.Before(first) {
			first = t
		}
		if t.After(last) {
			last = t
		}
	}
	if j.submit != nil {
		see(j.submit.Sent)
	}
	for i := range j.runs {
		see(j.runs[i].Began)
		see(j.runs[i].Ended)
	}
	for i := range j.outcomes {
		see(j.outcomes[i].ArrivedAt)
		see(j.outcomes[i].EndedAt)
	}
	return first, last
}

func (b *book) journaled() bool { return b.Journal != nil }

func (f *Fault) overlaps(from, to time.Time) bool {
	return !f.From.After(to) && (f.To.IsZero() || !f.To.Before(from))
}

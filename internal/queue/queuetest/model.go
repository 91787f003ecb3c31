package queuetest

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tierq/tierq/internal/job"
)

// Model is the specification of a queue in plain Go, without a store: its methods change the model and return the
// words that a script must answer. The test controls time: it passes arrivals, and a deadline has passed once the
// test calls Expire.
type Model struct {
	Jobs     []*ModelJob
	Capacity int // jobs; a tier is refused at its plan's share of it
	Delayed  int // the limit of jobs scheduled at submit
	Limit    int // the limit of living jobs; 0 = any number
	Bytes    int // the limit of the bytes that living jobs keep; those scheduled at submit may have half of it
	Later    int // how often a generation may be later without a retry; 0 = any number
	Plans    []job.Plan
	Queue    int // the limit of a declared queue's jobs that were never claimed, ready or delayed
	claims   map[string]ModelClaim
	keys     map[string]*modelKey // by the hash
}

// ModelJob is the expected state of one job.
type ModelJob struct {
	ID                                job.ID
	Plan                              job.Plan
	Owner, Queue, Unique              string
	delayed                           bool  // of a HELD job: it has a delay of its own
	Expires                           int64 // the time in ms by which it must be claimed; 0 = none
	model                             *Model
	Arrived                           int64
	Generation, Attempt, Retries, Max int
	Crashes                           int
	Payload, Saved                    int // bytes
	Log                               []ModelLine
	Done                              string // what the progress of the attempt says is done; "" = it was not told
	step                              int64  // the number of that progress
	Free                              int    // how often the job was later without a retry
	State                             job.Status
	Tried, Cancel, InOutbox           bool
	Aged                              bool // the job ended long ago
	Killed                            bool // the job ended because it was killed
	History                           int  // lines
	Laters                            int  // the history lines that say why the job was later, and until when
	token, ending                     string
	unheard                           bool // the lease is restored, and its holder has sent no heartbeat since
	endingWord                        job.Word
	expired, suspected, old           map[job.Watch]bool
}

// ModelLease is a lease that a claim returned.
type ModelLease struct {
	Job              *ModelJob
	Attempt, Retries int
	Crashes          int
	Token            string
}

// ModelClaim is a process' last claim.
type ModelClaim struct {
	Number     int64
	Repeat     int      // of a claim by id: the highest
	Deliveries []string // of a claim by id, the last one at the end
	Leases     []ModelLease
}

// Count counts the jobs for which is returns true.
func (m *Model) Count(is func(*ModelJob) bool) int {
	n := 0
	for _, j := range m.Jobs {
		if is(j) {
			n++
		}
	}
	return n
}

// Living counts the jobs of an owner that have not ended.
func (m *Model) Living(owner string) int {
	return m.Count(func(j *ModelJob) bool { return j.Owner == owner && !j.State.Ended() })
}

// Submit accepts a new job or refuses it; a job that the model has already is a duplicate.
func (m *Model) Submit(s job.Submission, p job.Plan, arrived int64) job.Word {
	if slices.ContainsFunc(m.Jobs, func(j *ModelJob) bool { return j.ID == s.ID }) {
		return job.Duplicate
	}
	full := func(limit int, is func(*ModelJob) bool, weight func(*ModelJob) int) bool {
		p := m.plan(s.Tier)
		return limit > 0 && m.filled(limit, is, weight) >= max(limit*p.Share/100, 1)
	}
	heavy := func(j *ModelJob) int { return j.Payload + j.Saved + j.logBytes() }
	word, behind := job.Word(""), (*modelKey)(nil)
	if s.Unique != "" {
		word, behind = m.askHolder(s, func() bool { return full(m.Bytes, alive, heavy) })
	}
	if word != "" {
		return word
	}
	if s.Quota > 0 && s.Owner != "" && m.Living(s.Owner) >= s.Quota {
		return job.Quota
	}
	state, limit := job.Pending, m.Capacity
	isDelayed := s.Delay > 0 || behind != nil
	if isDelayed {
		state, limit = job.Scheduled, m.Delayed
	}
	untried := func(j *ModelJob) bool {
		return !j.Tried && (j.State == state || isDelayed && j.State == job.Held)
	}
	switch {
	case s.QueueName() != job.MainQueue &&
		m.Count(func(j *ModelJob) bool { return untried(j) && j.Queue == s.QueueName() }) >= m.Queue:
		return job.Full
	case full(limit, untried, one),
		isDelayed && full(m.Bytes/2, untried, func(j *ModelJob) int { return j.Payload }),
		full(m.Limit, alive, one), full(m.Bytes, alive, heavy):
		return job.Full
	}
	j := &ModelJob{
		ID: s.ID, Plan: p, Owner: s.Owner, Arrived: arrived, Generation: 1, Max: s.MaxRetries, State: state,
		Payload: len(s.Payload), Queue: s.QueueName(), Unique: s.Unique, delayed: s.Delay > 0, Expires: s.ExpiresMs,
		model: m,
	}
	j.calm()
	m.Jobs = append(m.Jobs, j)
	switch {
	case behind != nil:
		j.State = job.Held
		behind.behind = append(behind.behind, j)
		return job.IsHeld
	case j.Unique != "":
		m.holdKey(j, nil)
	}
	return job.OK
}

func one(*ModelJob) int { return 1 }

func alive(j *ModelJob) bool { return !j.State.Ended() }

// filled returns how much of a limit the jobs selected by is use: the tiers fill the limit one after the other,
// the smallest share first, each at most up to its share.
func (m *Model) filled(limit int, is func(*ModelJob) bool, weight func(*ModelJob) int) int {
	n, shares := map[job.Tier]int{}, map[job.Tier]int{}
	for _, j := range m.Jobs {
		if is(j) {
			n[j.Plan.Tier] += weight(j)
			shares[j.Plan.Tier] = max(limit*j.Plan.Share/100, 1)
		}
	}
	sum := 0
	for _, tier := range slices.SortedFunc(maps.Keys(n),
		func(a, b job.Tier) int { return cmp.Compare(shares[a], shares[b]) }) {
		sum = max(sum, min(sum+n[tier], shares[tier]))
	}
	return sum
}

// calm clears the expired deadlines and the results of looks.
func (j *ModelJob) calm() {
	j.expired, j.suspected, j.old = map[job.Watch]bool{}, map[job.Watch]bool{}, map[job.Watch]bool{}
}

// Ready returns the ready jobs of a queue in the order in which they are claimed.
func (m *Model) Ready(queue string) []*ModelJob {
	var ready []*ModelJob
	for _, j := range m.Jobs {
		if j.State == job.Pending && j.Queue == queue {
			ready = append(ready, j)
		}
	}
	slices.SortFunc(ready, before)
	return ready
}

func before(a, b *ModelJob) int {
	return cmp.Or(cmp.Compare(a.Plan.Priority, b.Plan.Priority), cmp.Compare(a.Arrived, b.Arrived),
		cmp.Compare(a.ID, b.ID))
}

// best returns the jobs that a claim over some queues finds: the best tier first, of those with at least this priority,
// and, inside a tier, the queue with the oldest job first, or the first of queues that has any.
func (m *Model) best(queues []string, byName bool, most, least int) (found []*ModelJob) {
	goesFirst := func(a, b *ModelJob) bool {
		return before(a, b) < 0 && (!byName || a.Plan.Priority < b.Plan.Priority)
	}
	left := map[string][]*ModelJob{}
	for _, q := range queues {
		left[q] = slices.DeleteFunc(m.Ready(q), func(j *ModelJob) bool { return j.Plan.Priority < least })
	}
	for len(found) < most {
		var next string
		for _, q := range queues {
			if len(left[q]) > 0 && (next == "" || goesFirst(left[q][0], left[next][0])) {
				next = q
			}
		}
		if next == "" {
			break
		}
		tier := left[next][0].Plan.Priority
		for len(left[next]) > 0 && len(found) < most && left[next][0].Plan.Priority == tier {
			found, left[next] = append(found, left[next][0]), left[next][1:]
		}
	}
	return found
}

// Heartbeat extends a lease and stores a checkpoint of save bytes; 0 = no checkpoint.
func (m *Model) Heartbeat(l ModelLease, save int) job.Word {
	if !l.holds() || l.Job.State != job.Processing {
		return job.Lost
	}
	if save > 0 {
		l.Job.Saved = save
	}
	l.Job.unheard = false
	l.Job.expired[job.Crashed], l.Job.suspected[job.Crashed], l.Job.old[job.Crashed] = false, false, false
	if l.Job.Cancel {
		return job.Cancel
	}
	return job.OK
}

// End ends an attempt with a complete, fail, release, later or unknown. final and delayed are arguments of fail.
func (m *Model) End(kind string, l ModelLease, final, delayed bool) job.Word {
	j := l.Job
	switch {
	case !l.holds():
		return job.Lost
	case j.ending == kind:
		return j.endingWord
	case j.ending != "" || j.State != job.Processing:
		return job.Lost
	}
	j.ending, j.endingWord = kind, job.OK
	if kind != "complete" {
		j.History++
	}
	beyond := kind == "later" && m.Later > 0 && j.Free >= m.Later
	switch {
	case j.Cancel:
		j.endingWord = job.WasCancelled
		j.end(job.Cancelled)
	case kind == "complete":
		j.end(job.Completed)
	case kind == "fail" && (final || j.Retries >= j.Max), beyond && j.Retries >= j.Max:
		j.endingWord = job.Discarded
		j.end(job.NeedDiscard)
	default:
		if j.State = job.Pending; delayed || kind == "later" || kind == "unknown" {
			j.State = job.Scheduled
		}
		j.Done = ""
		m.takeAgain(j)
		switch {
		case kind == "fail", beyond:
			j.Retries++
		case kind == "later":
			j.Laters++
			j.Free++
		}
	}
	return j.endingWord
}

func (j *ModelJob) end(s job.Status) {
	j.State, j.InOutbox = s, true
	j.model.freeKey(j)
}

// Expire makes a running job's deadline pass.
func (j *ModelJob) Expire(w job.Watch) { j.expired[w] = true }

// Expired says whether a look of a watch finds the job.
func (j *ModelJob) Expired(w job.Watch) bool { return j.State == job.Processing && j.expired[w] }

// Ripen makes the last look of a watch lie long in the past.
func (m *Model) Ripen(w job.Watch) {
	for _, j := range m.Jobs {
		j.old[w] = j.suspected[w]
	}
}

// Look makes one look of a watch and returns the words by id.
func (m *Model) Look(w job.Watch) map[job.ID]job.Word {
	words := map[job.ID]job.Word{}
	for _, j := range m.Jobs {
		if j.Expired(w) {
			words[j.ID] = j.look(w)
		}
	}
	return words
}

func (j *ModelJob) look(w job.Watch) job.Word {
	if !j.old[w] {
		j.suspected[w] = true
		return job.Suspect
	}
	isFree := j.unheard
	j.token, j.unheard = "", false
	j.History++
	spent, most := &j.Retries, j.Max
	if w == job.Crashed && j.Plan.MaxCrashes != nil {
		spent, most = &j.Crashes, *j.Plan.MaxCrashes
	}
	switch {
	case j.Cancel:
		j.end(job.Cancelled)
		return job.WasCancelled
	case !isFree && *spent >= most:
		j.end(job.NeedDiscard)
		return job.Discarded
	}
	j.State, j.Done = job.Pending, ""
	j.model.takeAgain(j)
	if isFree {
		return job.OK
	}
	*spent++
	if w == job.Crashed && spent == &j.Retries { // a plan that gets a limit of crashes later finds them counted
		j.Crashes++
	}
	return job.OK
}

// Promote makes every scheduled job ready and returns how many there were.
func (m *Model) Promote() int {
	n := 0
	for _, j := range m.Jobs {
		if j.State == job.Scheduled {
			j.State = job.Pending
			n++
		}
	}
	return n
}

// LivingCrashes returns the crashes that Redis has of the job: none once it has ended.
func (j *ModelJob) LivingCrashes() int {
	if j.State.Ended() {
		return 0
	}
	return j.Crashes
}

package queuetest

import (
	"slices"
	"strings"

	"github.com/tierq/tierq/internal/job"
)

// What the model knows of unique keys. Keys for seconds stay for the whole test.

// modelKey is who has a unique key.
type modelKey struct {
	holder     *ModelJob
	generation int
	behind     []*ModelJob // oldest first
	timed      bool
}

func (k *modelKey) lives() bool {
	return k.holder.Generation == k.generation && !k.holder.State.Ended()
}

func (j *ModelJob) hash() string {
	hash, _, _ := strings.Cut(j.Unique, ".")
	return hash
}

func (j *ModelJob) whileWaiting() bool { return strings.HasSuffix(j.Unique, ".w") }

// holdKey makes a job the holder of its unique key.
func (m *Model) holdKey(j *ModelJob, behind []*ModelJob) {
	if m.keys == nil {
		m.keys = map[string]*modelKey{}
	}
	timed := strings.Contains(j.Unique, ".s")
	m.keys[j.hash()] = &modelKey{holder: j, generation: j.Generation, behind: behind, timed: timed}
}

// askHolder returns the word for a submit whose unique key another job has; "" = it makes a job, which is HELD behind
// the holder of behind unless that is nil.
func (m *Model) askHolder(s job.Submission, full func() bool) (word job.Word, behind *modelKey) {
	k := m.keys[s.UniqueHash()]
	switch {
	case k == nil || !k.timed && !k.lives():
		return "", nil
	case s.UniqueOn == job.UniqueReturn:
		return job.IsUnique, nil
	case s.UniqueOn == job.UniqueRefuse || k.timed:
		return job.IsTaken, nil
	}
	replace := func(j *ModelJob) job.Word {
		if len(s.Payload) > j.Payload && full() {
			return job.Full
		}
		plan := m.plan(s.Tier)
		j.Plan, j.Queue, j.Owner, j.Payload = plan, s.QueueName(), s.Owner, len(s.Payload)
		j.Max, j.Unique, j.Expires = s.MaxRetries, s.Unique, s.ExpiresMs
		if j.delayed = s.Delay > 0; j.State != job.Held {
			j.State = map[bool]job.Status{true: job.Scheduled, false: job.Pending}[j.delayed]
		}
		return job.Replaced
	}
	untried := func(j *ModelJob) bool { return j.Generation == 1 && !j.Tried && j.State != job.Processing }
	if h := k.holder; s.UniqueOn == job.UniqueReplace && untried(h) && h.Plan.Tier == s.Tier && h.Queue == s.QueueName() {
		return replace(h), nil
	}
	if n := len(k.behind); n > 0 && untried(k.behind[n-1]) {
		return replace(k.behind[n-1]), nil
	}
	return "", k
}

func (m *Model) plan(t job.Tier) job.Plan {
	i := slices.IndexFunc(m.Plans, func(p job.Plan) bool { return p.Tier == t })
	return m.Plans[max(i, 0)]
}

// freeKey lets go of a job's unique key: the first job that is HELD behind it gets the key and waits in its queue.
func (m *Model) freeKey(j *ModelJob) {
	k := m.keys[j.hash()]
	switch {
	case j.Unique == "" || k == nil:
	case k.holder != j || k.generation != j.Generation:
		k.behind = slices.DeleteFunc(k.behind, func(h *ModelJob) bool { return h == j })
	case k.timed:
	case len(k.behind) == 0:
		delete(m.keys, j.hash())
	default:
		next := k.behind[0]
		if next.State == job.Held {
			next.State = map[bool]job.Status{true: job.Scheduled, false: job.Pending}[next.delayed]
		}
		m.holdKey(next, k.behind[1:])
	}
}

// takeAgain gives a job that waits again the key that it freed at its claim, or puts it behind the holder.
func (m *Model) takeAgain(j *ModelJob) {
	k := m.keys[j.hash()]
	switch {
	case !j.whileWaiting():
	case k == nil:
		m.holdKey(j, nil)
	case !k.timed:
		k.behind = append(k.behind, j)
	}
}

// takeKey gives a restored job its key, or makes it HELD behind the holder.
func (m *Model) takeKey(j *ModelJob) {
	if j.Unique == "" || j.State.Ended() || j.State == job.Processing && j.whileWaiting() {
		return
	}
	k := m.keys[j.hash()]
	switch {
	case k == nil:
		m.holdKey(j, nil)
	case k.timed && k.holder != j:
	case k.holder == j || !k.lives():
		m.holdKey(j, k.behind)
	case !strings.Contains(j.Unique, ".s"):
		if j.State != job.Processing {
			j.delayed = j.State == job.Scheduled
			j.State = job.Held
		}
		k.behind = append(k.behind, j)
	}
}

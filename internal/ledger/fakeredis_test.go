package ledger

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"github.com/tierq/tierq/internal/job"
)

// fakeRedis stores jobs as the scripts do, as far as a ledger can see.
type fakeRedis struct {
	mu       sync.Mutex
	jobs     map[job.ID]job.Job
	attempts map[job.ID][]job.Attempt
	run      string
	runs     map[int]string          // incarnations of partitions that have another one; "" = the server does not answer
	known    []string                // what KnownIncarnation returns; nil = the present incarnations
	down     error                   // the error of every call
	after    func(call string) error // its error replaces the answer after the call was done; nil = none
	word     func(job.Job) job.Word  // an answer of Restore in place of the script's; "" = the script's
	calls    []string
}

func (r *fakeRedis) call(ctx context.Context, name string) error {
	r.calls = append(r.calls, name)
	return cmp.Or(r.down, ctx.Err())
}

func (r *fakeRedis) answer(name string) error {
	if r.after == nil {
		return nil
	}
	return r.after(name)
}

func (r *fakeRedis) Find(ctx context.Context, id job.ID) (job.Job, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.call(ctx, "find"); err != nil {
		return job.Job{}, err
	}
	if j, ok := r.jobs[id]; ok {
		return j, nil
	}
	return job.Job{}, job.ErrNotFound
}

func (r *fakeRedis) Attempts(ctx context.Context, id job.ID) ([]job.Attempt, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.attempts[id], r.call(ctx, "attempts")
}

func (r *fakeRedis) List(ctx context.Context, f job.Filter, cursor string, limit int) ([]job.Job, string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.call(ctx, "list"); err != nil {
		return nil, "", err
	}
	return listOf(r.jobs, f, cursor, limit)
}

func (r *fakeRedis) Cancel(ctx context.Context, partition int, batch []job.Cancellation) ([]job.Word, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.call(ctx, "cancel"); err != nil {
		return nil, err
	}
	j, ok := r.jobs[batch[0].ID]
	word := job.Ended
	switch {
	case partition != batch[0].ID.Partition():
		return nil, fmt.Errorf("partition %d", partition)
	case !ok:
		word = job.Empty
	case j.Status == job.Processing:
		j.CancelRequested = true
		word = job.Cancel
	case !j.Status.Ended() || j.Status == job.Cancelled:
		j.Status = job.Cancelled
		word = job.WasCancelled
	}
	if ok {
		r.jobs[j.ID] = j
	}
	return []job.Word{word}, r.answer("cancel")
}

func (r *fakeRedis) Kill(ctx context.Context, _ int, batch []job.Killing) ([]job.Word, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.call(ctx, "kill"); err != nil {
		return nil, err
	}
	k := batch[0]
	j, ok := r.jobs[k.ID]
	word := job.Ended
	switch {
	case !ok || max(j.Generation, 1) != k.Generation:
		return []job.Word{job.Empty}, r.answer("kill")
	case j.Status == job.Processing:
		word = job.Busy
	case j.Status.Shown() == job.Failed && j.Cause == job.Killed:
		word = job.Discarded
	case !j.Status.Ended():
		j.Status, j.Cause, j.LastError = job.NeedDiscard, job.Killed, k.Reason
		word = job.Discarded
	}
	r.jobs[k.ID] = j
	return []job.Word{word}, r.answer("kill")
}

func (r *fakeRedis) Hasten(ctx context.Context, _ int, ids []job.ID) ([]job.Word, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.call(ctx, "hasten"); err != nil {
		return nil, err
	}
	j, ok := r.jobs[ids[0]]
	word := job.OK
	switch {
	case !ok:
		return []job.Word{job.Empty}, r.answer("hasten")
	case j.Status == job.Processing:
		word = job.Busy
	case j.Status.Ended():
		word = job.Ended
	default:
		j.Status = job.Pending
	}
	r.jobs[j.ID] = j
	return []job.Word{word}, r.answer("hasten")
}

func (r *fakeRedis) Incarnations(ctx context.Context) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.call(ctx, "runs"); err != nil {
		return make([]string, 2), err
	}
	var err error
	runs := []string{r.run, r.run}
	for p, run := range r.runs {
		if runs[p] = run; run == "" {
			err = job.ErrUnavailable
		}
	}
	return runs, err
}

func (r *fakeRedis) KnownIncarnation(partition int) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known != nil {
		return r.known[partition]
	}
	if run, ok := r.runs[partition]; ok {
		return run
	}
	return r.run
}

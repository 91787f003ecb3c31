package ledger

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// fakeSQL stores the latest outcome of each job.
type fakeSQL struct {
	mu       sync.Mutex
	rows     map[job.ID]job.DeadLetter
	attempts map[job.ID][]job.Attempt
	living   *fakeJournal // the rows of promised generations
	requests map[job.ID][]string
	reasons  []job.Reason // of all jobs: a test has one job
	down     error
	after    func(call string) error
	calls    []string
	adopts   int
}

func (s *fakeSQL) call(ctx context.Context, name string) error {
	s.calls = append(s.calls, name)
	return cmp.Or(s.down, ctx.Err())
}

func (s *fakeSQL) Find(ctx context.Context, id job.ID) (job.Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.call(ctx, "find"); err != nil {
		return job.Job{}, err
	}
	if d, ok := s.rows[id]; ok {
		return d.Job, nil
	}
	return job.Job{}, job.ErrNotFound
}

func (s *fakeSQL) Attempts(ctx context.Context, id job.ID) ([]job.Attempt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attempts[id], s.call(ctx, "attempts")
}

func (s *fakeSQL) List(ctx context.Context, f job.Filter, cursor string, limit int) ([]job.Job, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.call(ctx, "list"); err != nil {
		return nil, "", err
	}
	jobs := map[job.ID]job.Job{}
	for id, d := range s.rows {
		jobs[id] = d.Job
	}
	return listOf(jobs, f, cursor, limit)
}

// open returns the open dead letters, the latest id first. The caller holds the lock.
func (s *fakeSQL) open(f job.Filter) (letters []job.DeadLetter) {
	for _, d := range s.rows {
		if d.Status == job.Failed && d.Open() && f.Takes(&d.Job) {
			letters = append(letters, d)
		}
	}
	slices.SortFunc(letters, func(a, b job.DeadLetter) int { return cmp.Compare(b.ID, a.ID) })
	return letters
}

func (s *fakeSQL) Dead(ctx context.Context, f job.Filter, _ string, limit int) ([]job.DeadLetter, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	letters := s.open(f)
	return letters[:min(limit, len(letters))], "", s.call(ctx, "dead")
}

func (s *fakeSQL) DeadPage(ctx context.Context, f job.Filter, _, size int) ([]job.DeadLetter, int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	letters := s.open(f)
	return letters[:min(size, len(letters))], int64(len(letters)), s.call(ctx, "page")
}

func (s *fakeSQL) EachDead(ctx context.Context, f job.Filter, each func(job.DeadLetter) error) error {
	s.mu.Lock()
	letters, err := s.open(f), s.call(ctx, "each")
	s.mu.Unlock()
	for i := 0; err == nil && i < len(letters); i++ {
		err = each(letters[i])
	}
	return err
}

func (s *fakeSQL) CountDead(ctx context.Context, f job.Filter) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.open(f))), s.call(ctx, "count")
}

func (s *fakeSQL) DeadLetter(ctx context.Context, id job.ID) (job.DeadLetter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.call(ctx, "letter"); err != nil {
		return job.DeadLetter{}, err
	}
	d, ok := s.rows[id]
	switch {
	case !ok:
		return d, job.ErrNotFound
	case d.Status != job.Failed:
		return job.DeadLetter{}, job.ErrWrongState
	}
	return d, nil
}

func (s *fakeSQL) Dismiss(ctx context.Context, id job.ID, _ string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.call(ctx, "dismiss"); err != nil {
		return false, err
	}
	d := s.rows[id]
	open := d.Status == job.Failed && d.Open() && d.DismissedAt.IsZero()
	if open {
		d.DismissedAt = time.Now()
		s.rows[id] = d
	}
	return open, s.answer("dismiss")
}

func (s *fakeSQL) promise(next job.JournalRow, request job.Request) bool {
	id, generation := next.ID, next.Generation-1
	d := s.rows[id]
	if d.Generation != generation || d.Status != job.Failed || !d.Open() {
		return d.RequestID == request.ID
	}
	d.RequestedAt, d.RequeuedAt, d.RequestID = time.Now(), time.Now(), request.ID
	s.rows[id] = d
	s.living.set(next)
	if s.requests == nil {
		s.requests = map[job.ID][]string{}
	}
	s.requests[id] = append(s.requests[id], request.ID)
	if request.Reason != "" {
		s.reasons = append(
			s.reasons,
			job.Reason{Action: job.RequeueAction, Generation: generation, Text: request.Reason, Outcome: job.Failed},
		)
	}
	return true
}

func (s *fakeSQL) answer(name string) error {
	if s.after == nil {
		return nil
	}
	return s.after(name)
}

func (s *fakeSQL) Requested(ctx context.Context, id job.ID, request string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.requests[id], request), s.call(ctx, "requested")
}

func (s *fakeSQL) PromiseRequeues(ctx context.Context, next []job.JournalRow, request job.Request) ([]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.call(ctx, "promise"); err != nil {
		return nil, err
	}
	made := make([]bool, len(next))
	for i := range next {
		made[i] = s.promise(next[i], request)
	}
	return made, s.answer("promise")
}

func (s *fakeSQL) AdoptPromises(context.Context, func(job.Tier) int) (int, error) {
	s.adopts++
	return 0, s.down
}

func (s *fakeSQL) KeepCancelReason(ctx context.Context, _ job.ID, generation int, reason string, over bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.call(ctx, "reason"); err != nil {
		return err
	}
	at := slices.IndexFunc(
		s.reasons,
		func(r job.Reason) bool { return r.Action == job.CancelAction && r.Generation == generation },
	)
	switch {
	case at < 0:
		s.reasons = append(s.reasons, job.Reason{Action: job.CancelAction, Generation: generation, Text: reason})
	case over:
		s.reasons[at].Text = reason
	}
	return s.answer("reason")
}

func (s *fakeSQL) Reasons(ctx context.Context, id job.ID) ([]job.Reason, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reasons := slices.Clone(s.reasons)
	for i := range reasons {
		if d, ok := s.rows[id]; ok && d.Generation == reasons[i].Generation {
			reasons[i].Outcome = d.Status
		}
	}
	return reasons, s.call(ctx, "reasons")
}

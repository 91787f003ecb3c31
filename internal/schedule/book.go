package schedule

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Rows is what a Book needs of SQL.
type Rows interface {
	Schedules(ctx context.Context) ([]job.Schedule, error)
	Schedule(ctx context.Context, name string) (job.Schedule, error)
	ScheduleRuns(ctx context.Context, name string, limit int) ([]job.ScheduleRun, error)
	StoreSchedule(ctx context.Context, s job.Schedule, next time.Time) error
	DeleteSchedule(ctx context.Context, name string, version int64) error
	RunSchedule(ctx context.Context, f *job.Firing) (id, living job.ID, err error)
	ScheduleOfJob(ctx context.Context, id job.ID) (string, error)
	// RunOf returns the job that a request has made; "" = none.
	RunOf(ctx context.Context, name, request string) (job.ID, error)
	living
}

// Book reads and changes schedules for operators. It is safe for concurrent use.
type Book struct {
	Rows
	Options
}

// Next returns the next n occurrences of a schedule after a time, at most; fewer if it ends before.
func (b *Book) Next(s *job.Schedule, after time.Time, n int) ([]time.Time, error) {
	t, err := New(s)
	if err != nil {
		return nil, err
	}
	var all []time.Time
	for at := t.Next(after); len(all) < n && !at.IsZero(); at = t.Next(at) {
		all = append(all, at)
	}
	return all, nil
}

// tries is how often a change begins anew because the schedule fires meanwhile.
const tries = 20

// StoreSchedule stores a schedule in place of that of a version: -1 = any, 0 = there is none. It returns the schedule
// as it is stored, and the one before (with version 0 if there was none). A schedule that is as asked already is not
// changed. What is due of a schedule stays due, unless its cron, its zone, its every or its start changes. A paused
// schedule stays paused. job.ErrBadSchedule, job.ErrChanged.
func (b *Book) StoreSchedule(ctx context.Context, asked job.Schedule, version int64) (stored, was job.Schedule,
	err error) {
	t, err := New(&asked)
	if err != nil {
		return asked, was, err
	}
	return b.change(ctx, asked.Name, func(is *job.Schedule) (*job.Schedule, error) {
		return b.wanted(is, asked, t, version)
	})
}

// TrySchedule returns the schedule that StoreSchedule would store, and stores nothing. It does not count the schedules.
// Its errors are those of StoreSchedule.
func (b *Book) TrySchedule(ctx context.Context, asked job.Schedule, version int64) (would job.Schedule, err error) {
	t, err := New(&asked)
	if err != nil {
		return asked, err
	}
	is, err := b.Schedule(ctx, asked.Name)
	if err != nil && !errors.Is(err, job.ErrNoSchedule) {
		return asked, err
	}
	s, err := b.wanted(&is, asked, t, version)
	if err != nil || s == nil {
		return is, err
	}
	return *s, nil
}

// wanted returns the asked schedule s as it replaces the stored schedule is, which has version 0 if there is none. It
// returns nil if the stored schedule is as asked already.
func (b *Book) wanted(is *job.Schedule, s job.Schedule, t *Timetable, version int64) (*job.Schedule, error) {
	if version >= 0 && is.Version != version {
		return nil, job.ErrChanged
	}
	s.Paused, s.Version, s.Incarnation, s.Last = is.Paused, is.Version+1, is.Incarnation, is.Last
	if is.Version == 0 {
		s.Incarnation = name()
	} else if same(is, &s) {
		return nil, nil
	}
	if s.Next = is.Next; is.Version == 0 || !sameTimes(is, &s) || s.Next.IsZero() ||
		!s.End.IsZero() && s.Next.After(s.End) {
		s.Next = t.Next(b.since(is))
	}
	s.Due = t.Due(s.Next)
	if s.Paused != nil {
		s.Due = time.Time{}
	}
	return &s, nil
}

// since returns the time after which a changed schedule begins anew: now, and no occurrence comes twice.
func (b *Book) since(is *job.Schedule) time.Time {
	if now := b.Now(); now.After(is.Last) {
		return now
	}
	return is.Last
}

// change stores what do makes of a schedule, which has version 0 if there is none. It calls do again if the schedule
// has fired meanwhile. do returns nil to change nothing.
func (b *Book) change(ctx context.Context, name string, do func(is *job.Schedule) (*job.Schedule, error)) (stored,
	was job.Schedule, err error) {
	for range tries {
		was, err = b.Schedule(ctx, name)
		if err != nil && !errors.Is(err, job.ErrNoSchedule) {
			return was, was, err
		}
		s, err := do(&was)
		if err != nil || s == nil {
			return was, was, err
		}
		switch err := b.Rows.StoreSchedule(ctx, *s, was.Next); {
		case err == nil:
			stored, err := b.Schedule(ctx, name)
			if err != nil && !errors.Is(err, job.ErrNoSchedule) { // the change is made, so this is no refusal
				err = fmt.Errorf("%w: it was changed, and then: %w", job.ErrAmbiguous, err)
			}
			return stored, was, err
		case !errors.Is(err, job.ErrChanged):
			return *s, was, err
		}
	}
	return was, was, job.ErrChanged
}

// sameTimes says whether two schedules have the same occurrences, but for their end.
func sameTimes(a, b *job.Schedule) bool {
	zone := func(s *job.Schedule) string { return cmp.Or(s.Timezone, "UTC") }
	return a.Cron == b.Cron && a.Every == b.Every && zone(a) == zone(b) && a.Start.Equal(b.Start)
}

// same says whether two schedules are the same to their callers.
func same(a, b *job.Schedule) bool {
	x, y := a.Job, b.Job
	equal := string(x.Payload) == string(y.Payload)
	x.Payload, y.Payload = nil, nil
	return equal && sameJob(x, y) && sameTimes(a, b) && a.End.Equal(b.End) && a.Jitter == b.Jitter &&
		a.Overlap == b.Overlap && a.CatchUp == b.CatchUp && a.Owner == b.Owner
}

func sameJob(x, y job.ScheduledJob) bool {
	return x.Tier == y.Tier && x.Type == y.Type && x.Queue == y.Queue && x.Line == y.Line &&
		x.MaxRetries == y.MaxRetries && x.MaxRun == y.MaxRun && x.Callback == y.Callback && x.ExpiresIn == y.ExpiresIn &&
		x.Everybody == y.Everybody
}

// PauseSchedule makes a schedule make no jobs until it is resumed. A paused one stays as it is. job.ErrNoSchedule.
func (b *Book) PauseSchedule(ctx context.Context, name string, p job.SchedulePause) (stored, was job.Schedule,
	err error) {
	return b.change(ctx, name, func(is *job.Schedule) (*job.Schedule, error) {
		switch {
		case is.Version == 0:
			return nil, job.ErrNoSchedule
		case is.Paused != nil:
			return nil, nil
		}
		s := *is
		p.Since = b.Now()
		s.Paused, s.Due, s.Version = &p, time.Time{}, is.Version+1
		return &s, nil
	})
}

// ResumeSchedule lets a paused schedule go on, with the next occurrence from now. job.ErrNoSchedule;
// job.ErrScheduleState: its owner's key is dead.
func (b *Book) ResumeSchedule(ctx context.Context, name string) (stored, was job.Schedule, err error) {
	return b.change(ctx, name, func(is *job.Schedule) (*job.Schedule, error) {
		switch {
		case is.Version == 0:
			return nil, job.ErrNoSchedule
		case is.Paused == nil:
			return nil, nil
		}
		if _, err := b.owner(ctx, is); err != nil {
			return nil, stateOf(err)
		}
		t, err := New(is)
		if err != nil {
			return nil, err
		}
		s := *is
		s.Paused, s.Version, s.Next = nil, is.Version+1, t.Next(b.since(is))
		s.Due = t.Due(s.Next)
		return &s, nil
	})
}

// stateOf turns errKeyDead into job.ErrScheduleState.
func stateOf(err error) error {
	if errors.Is(err, errKeyDead) {
		return fmt.Errorf("%w: %w; store the schedule with a key that lives", job.ErrScheduleState, err)
	}
	return err
}

// RunSchedule makes a job of a schedule now, beside its occurrences, also of a paused one. A request that has made a
// job gets that job again; no request is one of its own. The errors are those of a submit, job.ErrNoSchedule, and
// job.ErrScheduleState if the schedule's overlap does not allow it. job.ErrFateUnknown comes with the id.
func (b *Book) RunSchedule(ctx context.Context, of, request string) (job.ID, error) {
	s, err := b.Schedule(ctx, of)
	if err != nil {
		return "", err
	}
	if request == "" {
		request = name()
	} else if id, err := b.RunOf(ctx, of, request); err != nil || id != "" {
		return id, err
	}
	read, now := time.Now(), b.Now().Truncate(time.Millisecond)
	r, no := b.row(ctx, &s, asked{at: now, request: request, now: now})
	if no != nil {
		return "", stateOf(no.err)
	}
	f := job.Firing{
		Name: of, Living: s.Overlap.Living(), Row: &r,
		Run: job.ScheduleRun{Occurrence: now, Request: request, JobID: r.ID},
	}
	if err := b.running(ctx, b.Rows, &s, &f); err != nil {
		return "", err
	}
	id, living, err := b.Rows.RunSchedule(ctx, &f)
	if id != r.ID && !errors.Is(err, job.ErrAmbiguous) { // its id is of this call alone
		b.Free(ctx, r.ID)
	}
	switch {
	case errors.Is(err, job.ErrAmbiguous):
		return r.ID, fmt.Errorf("%w: %w", job.ErrFateUnknown, err)
	case err != nil:
		return "", err
	case id == "":
		return "", fmt.Errorf("%w: the job %s of it has not ended", job.ErrScheduleState, living)
	case id == r.ID:
		b.give(ctx, &f, read)
	}
	return id, nil
}

// name returns 32 random hexadecimal digits.
func name() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // crypto/rand never fails
	return hex.EncodeToString(b[:])
}

package events

import (
	"context"
	"time"

	"github.com/tierq/tierq/internal/job"
)

const (
	safetyNet = 5 * time.Second // between two reads if no event comes
	onTrouble = time.Second     // between two reads after a failed one
)

// Await returns the job as soon as done returns true, or its present state when ctx ends or the hub drains, which
// is no error. An outage that begins during the wait is returned only if it lasts to the end of the wait. Any
// other error, such as job.ErrNotFound, and an outage at the first read are returned at once. done is called in
// the caller's goroutine, with the state at the beginning and after each change; it must not keep the job.
//
// A nil done waits for the job's end and causes no reads while the job only moves. When ctx ends there is one more
// read if the job has moved; when the hub drains there is none.
func (h *Hub) Await(ctx context.Context, id job.ID, done func(*job.Job) bool) (job.Job, error) {
	curious := done != nil
	if !curious {
		done = func(j *job.Job) bool { return j.Status.Ended() }
	}
	interest := endOnly
	if curious {
		interest = eachMove
	}
	last, known, err := h.watch(ctx, id, interest, func(j *job.Job) (bool, error) { return done(j), nil })
	if err == nil && !known {
		err = errNoAnswer
	}
	return last, err
}

// Follow calls each with the job's present state and again after each change that a poll would show. Changes in
// quick succession are reported as one. Follow returns nil when the job has ended, when ctx ends or when the hub
// drains. Otherwise it returns the error of each, or that of a read as in Await.
func (h *Hub) Follow(ctx context.Context, id job.ID, each func(job.Job) error) error {
	var told *version
	_, _, err := h.watch(ctx, id, eachNews, func(j *job.Job) (bool, error) {
		if v := versionOf(j); told == nil || *told != v {
			told = &v
			if err := each(*j); err != nil {
				return true, err
			}
		}
		return j.Status.Ended(), nil
	})
	return err
}

// version has the fields of a job whose change a poll would show.
type version struct {
	status                       job.Status
	attempt, retries, generation int
	told                         time.Time // of the progress
	logBytes                     int
}

func versionOf(j *job.Job) version {
	v := version{
		status: j.Status.Shown(), attempt: j.Attempt, retries: j.RetryCount, generation: j.Generation, logBytes: j.LogBytes,
	}
	if j.Progress != nil {
		v.told = j.Progress.At
	}
	return v
}

// watch calls look with the job at the beginning and after each read, until look says stop or returns an error, or
// until the wait ends. known says whether last is a state that was read. If curious is false, only an event that
// ends the job causes a read.
func (h *Hub) watch(ctx context.Context, id job.ID, of interest,
	look func(*job.Job) (stop bool, err error)) (last job.Job, known bool, err error) {
	w := h.join(id, of)
	if w == nil {
		return last, false, errNoAnswer
	}
	defer h.part(w)
	timer := time.NewTimer(safetyNet)
	defer timer.Stop()
	ended, draining := ctx.Done(), h.draining
	// closing means that the wait is over except for one read: the first, or one for the job's present state
	closing := false
	for {
		over, hurry := false, false
		select {
		case <-w.wake:
			s, fresh := h.latest(w)
			if !fresh {
				continue
			}
			if err = s.err; err == nil {
				last, known = s.job, true
				if stop, lookErr := look(&s.job); stop || lookErr != nil {
					return last, known, lookErr
				}
			}
			switch {
			case closing, err != nil && !(known && job.Outage(err)):
				return last, known, err
			case err != nil:
				timer.Reset(onTrouble)
			default:
				timer.Reset(safetyNet)
			}
		case <-timer.C:
			if closing {
				return last, known, errNoAnswer
			}
			h.refresh(w)
			timer.Reset(safetyNet)
		case <-ended:
			over = true
		case <-draining:
			over, hurry = true, true
		}
		if over {
			if (known || err != nil) && (hurry || !h.renew(w)) {
				return last, known, err
			}
			ended, draining, closing = nil, nil, true
			timer.Reset(readTimeout)
		}
	}
}

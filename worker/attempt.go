package worker

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// attempt is a job that this worker holds: from the answer to its claim until the answer to its report.
type attempt struct {
	Job
	lease
	w      *Worker
	ctx    context.Context
	cancel context.CancelCauseFunc
	ends   time.Time   // the maximum processing time
	clock  *time.Timer // ends the context when the lease or the time is over

	// Of the worker's mutex.
	until  time.Time // the lease is surely held until then
	beatAt time.Time // when the next heartbeat is due
	done   bool      // the handler has returned
	lost   bool      // the server says that the job is not this worker's any more

	// The checkpoint of the highest number, and who waits for it to be stored.
	progress      json.RawMessage // nil = stored, or none
	saves, stored int
	savers        []saver

	told told
}

// lease is what a claim's answer says about the worker's hold on a job.
type lease struct {
	Sealed           string `json:"lease"`
	LeaseForMs       int64  `json:"leaseForMs"`
	HeartbeatEveryMs int64  `json:"heartbeatEveryMs"`
	EndsInMs         int64  `json:"endsInMs"`
}

type saver struct {
	number int
	stored chan struct{}
}

type attemptKey struct{}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// start runs the handler of a job whose claim was sent at a certain time.
func (w *Worker) start(handlers context.Context, j *claimed, sent time.Time) {
	a := &attempt{Job: j.Job, lease: j.lease, w: w, told: told{first: 1}}
	if string(a.Checkpoint) == "null" {
		a.Checkpoint = nil
	}
	a.until, a.ends = sent.Add(ms(a.LeaseForMs)), sent.Add(ms(a.EndsInMs))
	a.beatAt = sent.Add(ms(a.HeartbeatEveryMs))
	a.ctx, a.cancel = context.WithCancelCause(context.WithValue(handlers, attemptKey{}, a))
	w.mu.Lock()
	w.held[a.Sealed] = a
	a.clock = time.AfterFunc(time.Until(a.soonest()), a.tick)
	w.mu.Unlock()
	go func() {
		result, err := w.handle(a.ctx, &a.Job)
		a.finish(result, err)
	}()
}

// soonest returns when the attempt has to end unless a heartbeat extends its lease.
func (a *attempt) soonest() time.Time {
	if a.until.Before(a.ends) {
		return a.until
	}
	return a.ends
}

// tick ends the handler's context if the lease or the time is over.
func (a *attempt) tick() {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	now := time.Now()
	switch {
	case a.done:
	case !now.Before(a.ends):
		a.cancel(ErrMaxTime)
	case !now.Before(a.until):
		a.cancel(ErrLeaseLost)
	default:
		a.clock.Reset(time.Until(a.soonest()))
	}
}

// finish gives the attempt's place free and hands over its report.
func (a *attempt) finish(result json.RawMessage, err error) {
	text := a.says(result, err)
	a.tellRest()
	a.clock.Stop()
	a.cancel(nil)
	w := a.w
	w.mu.Lock()
	a.done = true
	w.free++
	if a.lost {
		delete(w.held, a.Sealed)
	} else {
		w.ended = append(w.ended, &report{attempt: a, text: text})
	}
	w.mu.Unlock()
	w.wakeClaimers()
	signal(w.toSend)
	signal(w.beatIt)
}

// The members of a report.
type (
	entry struct {
		Lease     string     `json:"lease"`
		Completed *completed `json:"completed,omitempty"`
		Failed    *failed    `json:"failed,omitempty"`
		Released  *released  `json:"released,omitempty"`
	}
	completed struct {
		Result json.RawMessage `json:"result"`
	}
	failed struct {
		Error      failure `json:"error"`
		Permanent  bool    `json:"permanent,omitempty"`
		RetryAfter *int64  `json:"retryAfterSeconds,omitempty"`
	}
	failure struct {
		Message string `json:"message"`
		Type    string `json:"type,omitempty"`
		Stack   string `json:"stack,omitempty"`
	}
	released struct {
		Delay  int64  `json:"delaySeconds,omitempty"`
		Reason string `json:"reason,omitempty"`
	}
)

// says returns the report of a handler's end.
func (a *attempt) says(result json.RawMessage, err error) []byte {
	e := entry{Lease: a.Sealed}
	var (
		later     laterError
		retry     retryError
		permanent permanentError
		unknown   unknownType
		panics    panicked
	)
	cause := context.Cause(a.ctx)
	switch {
	case err == nil:
		e.Completed = &completed{result}
	case errors.As(err, &later):
		e.Released = &released{max(seconds(later.after), 1), short(later.reason)}
	case errors.As(err, &permanent):
		e.Failed = &failed{Error: failure{Message: short(err.Error())}, Permanent: true}
	case errors.Is(cause, ErrStopping), errors.Is(cause, ErrLeaseLost):
		e.Released = &released{} // the worker disturbed the handler, which must not cost a retry
	case errors.As(err, &retry):
		after := max(seconds(retry.after), 0)
		e.Failed = &failed{Error: failure{Message: short(err.Error())}, RetryAfter: &after}
	case errors.As(err, &unknown):
		e.Failed = &failed{Error: failure{Message: short(err.Error()), Type: "UNKNOWN_JOB_TYPE"}}
	case errors.As(err, &panics):
		e.Failed = &failed{Error: failure{Message: short(panics.message), Type: "panic", Stack: short(panics.stack)}}
	default:
		e.Failed = &failed{Error: failure{Message: short(err.Error())}}
	}
	return encoded(e)
}

// seconds rounds up: a wait is never shorter than a handler asked for.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// short cuts a text: the server keeps less than this of it.
func short(text string) string { return text[:min(len(text), 4096)] }

func encoded(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // only texts, numbers and JSON that was checked
	}
	return text
}

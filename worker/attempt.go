package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"strconv"
	"time"
)

// attempt is a job that this worker holds: from the answer to its claim until the answer to its report.
type attempt struct {
	Job
	lease
	w      *Worker
	ctx    context.Context
	cancel context.CancelCauseFunc
	stop   context.CancelFunc // frees the context's timer
	ends   time.Time          // the maximum processing time
	clock  *time.Timer        // ends the context when the lease is over
	cause  error              // why the context had ended when the handler returned; nil = it had not

	// Of the worker's mutex.
	until  time.Time // the lease is surely held until then
	beatAt time.Time // when the next heartbeat is due
	sayAt  time.Time // when the checkpoint or the progress is due; zero = neither waits
	alone  bool      // they go in a heartbeat of their own, because the server refused one with them
	done   bool      // the handler has returned
	said   bool      // the log says that the time is over
	lost   bool      // the server says that the job is not this worker's any more

	// The checkpoint of the highest number, and who waits for it to be stored.
	checkpoint json.RawMessage // nil = stored, refused, or none
	saves      int
	savers     []saver

	told told
}

// lease is what a claim's answer says about the worker's hold on a job.
type lease struct {
	Sealed           string `json:"lease"`
	LeaseForMs       int64  `json:"leaseForMs"`
	HeartbeatEveryMs int64  `json:"heartbeatEveryMs"`
	EndsInMs         int64  `json:"endsInMs"`
}

// saver waits for a checkpoint. It gets nil, or why the server refuses it.
type saver struct {
	number   int
	answered chan error
}

type attemptKey struct{}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// The bounds of the time between two heartbeats of a lease, and of what a heartbeat extends a lease by.
const (
	leastBeatEvery = 100 * time.Millisecond
	mostLease      = time.Hour
)

// nextBeat returns when the next heartbeat is due for a lease that was extended at a time for so long.
func (a *attempt) nextBeat(from time.Time, held time.Duration) time.Time {
	return from.Add(min(max(ms(a.HeartbeatEveryMs), leastBeatEvery), held/3))
}

// start runs the handler of a job. Its times count from a time of this process' clock.
func (w *Worker) start(handlers context.Context, j *claimed, from time.Time) {
	a := &attempt{Job: j.Job, lease: j.lease, w: w, told: told{first: 1}}
	if string(a.Checkpoint) == "null" {
		a.Checkpoint = nil
	}
	held := min(ms(a.LeaseForMs), mostLease)
	a.until, a.ends = from.Add(held), from.Add(ms(a.EndsInMs))
	a.beatAt = a.nextBeat(from, held)
	var timed context.Context
	own := context.WithValue(handlers, attemptKey{}, a)
	timed, a.stop = context.WithDeadlineCause(own, a.ends, &ended{ErrMaxTime, a, ""})
	a.ctx, a.cancel = context.WithCancelCause(timed)
	w.mu.Lock()
	w.held[a.Sealed] = a
	a.clock = time.AfterFunc(time.Until(a.soonest()), a.tick)
	w.mu.Unlock()
	go a.run()
}

// run runs the handler. Its report follows whatever the handler does, except if it ends the process.
func (a *attempt) run() {
	var said *entry
	defer func() {
		if said == nil { // runtime.Goexit in a method of a panic's value
			said = a.fails(failure{Message: goexit}, wish{})
		}
		a.finish(said)
	}()
	defer func() {
		p := recover()
		switch {
		case said != nil:
		case p == nil:
			said = a.fails(failure{Message: goexit, Stack: cut(string(debug.Stack()), mostText)}, wish{})
		default:
			stack := cut(string(debug.Stack()), mostText)
			said = a.fails(failure{Message: textOf(p), Type: "panic", Stack: stack}, wish{})
		}
	}()
	said = a.says(a.w.handle(a.ctx, &a.Job))
}

// ended is why an attempt's context has ended. Its text is made when it is read: most attempts end in time.
type ended struct {
	kind error
	a    *attempt
	text string // "" = the time is over
}

func (c *ended) Error() string {
	text := c.text
	if text == "" {
		text = c.a.over()
	}
	return fmt.Sprintf("%v: job %s (%s): %s", c.kind, c.a.ID, c.a.Type, text)
}

func (c *ended) Unwrap() error { return c.kind }

// over is what the log says when the time is over.
func (a *attempt) over() string {
	took := strconv.FormatFloat(math.Round(ms(a.EndsInMs).Seconds()*10)/10, 'f', -1, 64)
	return "the attempt ended after " + took + " s, its maximum processing time; raise it with " +
		"maxProcessingSeconds of the queue or maxProcessingTimeMs of the tier"
}

// warn writes a line about the job into the worker's log. The worker's mutex is not held.
func (a *attempt) warn(text string, more ...any) {
	a.w.log.Warn(text, append([]any{"job_id", a.ID, "type", a.Type}, more...)...)
}

// soonest returns when the attempt has to end unless a heartbeat extends its lease.
func (a *attempt) soonest() time.Time {
	if a.until.Before(a.ends) {
		return a.until
	}
	return a.ends
}

// The texts about a lease that is lost while the handler runs.
const (
	notExtended = "the lease was lost, another worker may run the job: no heartbeat was answered in time"
	takenBack   = "the lease was lost, another worker may run the job: the server has taken the job back"
	stillRuns   = "the handler still runs although its attempt has ended; its slot stays taken"
)

// stillAfter is how long a handler may run after its lease was lost before the log says so.
const stillAfter = 2 * time.Second

// tick ends the handler's context if the lease is over, and says so, or that the time is over.
func (a *attempt) tick() {
	a.w.mu.Lock()
	now, text := time.Now(), ""
	cause := context.Cause(a.ctx)
	switch {
	case a.done:
	case !now.Before(a.ends):
		if cause == nil || errors.Is(cause, ErrMaxTime) {
			text, a.said = a.over(), true
		}
	case !now.Before(a.until):
		if cause == nil {
			text = notExtended
			a.cancel(&ended{ErrLeaseLost, a, text})
		}
	default:
		a.clock.Reset(time.Until(a.soonest()))
	}
	a.w.mu.Unlock()
	if text != "" {
		a.warn(text)
	}
}

// still says in the log that the handler of a lost lease still runs.
func (a *attempt) still() {
	a.w.mu.Lock()
	done := a.done
	a.w.mu.Unlock()
	if !done {
		a.warn(stillRuns)
	}
}

// finish frees the attempt's slot and hands over its report.
func (a *attempt) finish(said *entry) {
	a.clock.Stop()
	a.cause = context.Cause(a.ctx)
	a.tellRest() // takes time that is not the handler's
	a.cancel(nil)
	a.stop()
	r := newReport(a, said)
	w := a.w
	w.mu.Lock()
	a.done = true
	w.free++
	lost := a.lost
	late := errors.Is(a.cause, ErrMaxTime) && !a.said // the handler returned at once
	if lost {
		delete(w.held, a.Sealed)
	} else {
		w.ended = append(w.ended, r)
	}
	w.mu.Unlock()
	if late {
		a.warn(a.over())
	}
	if lost {
		r.late()
	}
	w.wakeClaimers()
	signal(w.toSend)
	signal(w.beatIt)
}

package httpapi

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tierq/tierq/internal/job"
)

// Why has the facts that decide when a job runs.
type Why struct {
	Job       job.Job
	Paused    *job.Pause     // which keeps it from being claimed; nil = none does
	Ahead     job.Ahead      // of a PENDING job
	Line      *job.LinePlace // of a PENDING job in a line
	Holder    job.ID         // of a HELD job: the job that has its unique key; "" = not known
	Waits     []job.FlowWait // of a WAITING job: jobs that it waits for
	WaitsOpen int            // so many of these have not completed
	WaitsAll  int            // for so many it has to wait in all
	FreeSlots int            // over all workers, that the job may have
	OwnFree   map[string]int // free slots that only jobs of other tiers may have, by the tiers' names
	Workers   int            // processes that run jobs of the queue
	Gate      Gate
	Rate      float64 // jobs that end per second, over all processes; 0 = not known
}

type whyBody struct {
	JobID         job.ID             `json:"jobId"`
	Holder        job.ID             `json:"holder,omitzero"` // of a HELD job
	Status        job.Status         `json:"status"`
	Queue         whyQueue           `json:"queue"`
	Paused        *pauseBody         `json:"paused"` // null: it is not paused
	Line          *whyLine           `json:"line"`   // null: it is not in a line
	Position      *int64             `json:"position"`
	AheadByTier   map[job.Tier]int64 `json:"aheadByTier"`
	RunningByTier map[job.Tier]int64 `json:"runningByTier"`
	FreeSlots     int                `json:"freeSlots"`
	Workers       int                `json:"workers"`
	Gate          whyGate            `json:"gate"`
	ETASeconds    *int64             `json:"etaSeconds"`
	RunAt         *string            `json:"runAt"`
	ExpiresAt     *string            `json:"expiresAt"`
	WaitsFor      []whyWait          `json:"waitsFor,omitempty"` // of a WAITING job: some of the jobs that it waits for
	Progress      *progressBody      `json:"progress,omitempty"`
	Reasons       []string           `json:"reasons"`
}

// whyLine is the place of a job in the line of its key.
type whyLine struct {
	lineKeyBody
	Ahead   int64   `json:"ahead"`   // jobs of the line before it
	Running int     `json:"running"` // attempts of the key
	Parked  bool    `json:"parked"`  // the key may not start an attempt now
	Until   *string `json:"until"`   // when it may; null: when an attempt of the key ends, or an operator allows it
}

// whyWait is a job of a flow that a WAITING job waits for.
type whyWait struct {
	Name   string     `json:"name"`
	JobID  job.ID     `json:"jobId"`
	Status job.Status `json:"status"`
}

type whyQueue struct {
	Name   string  `json:"name"`
	Paused *string `json:"paused"` // since when; null: it is not paused
}

type whyGate struct {
	Open   bool   `json:"open"`
	Reason string `json:"reason"`
}

// why serves GET /api/jobs/{id}/why: it explains why a job is still waiting.
func (a *api) why(c *gin.Context) error {
	id, err := bareID(c)
	if err != nil {
		return err
	}
	if err := a.known(c, id); err != nil {
		return aboutJob(err, id)
	}
	w, err := a.Overview.Why(c.Request.Context(), id)
	if err != nil {
		return aboutJob(err, id)
	}
	body := whyBody{
		JobID: id, Holder: w.Holder, Status: w.Job.Status.Shown(), Queue: whyQueue{Name: w.Job.QueueName()},
		RunningByTier: w.Ahead.Running, FreeSlots: w.FreeSlots, Workers: w.Workers,
		Gate: whyGate{w.Gate.Open, w.Gate.Reason}, Reasons: w.reasons(),
	}
	a.veil(c, &w.Job)
	body.Progress = progressOf(w.Job.Progress)
	if w.Paused != nil {
		paused := pauseOf(*w.Paused)
		if body.Paused = &paused; w.Paused.Scope == job.PauseQueue(w.Job.QueueName()) {
			body.Queue.Paused = when(w.Paused.Since)
		}
	}
	switch w.Job.Status {
	case job.Pending:
		body.Position, body.AheadByTier = &w.Ahead.Position, w.Ahead.ByTier
		if l := w.Line; l != nil {
			body.Line = &whyLine{lineKeyOf(l.Name), l.Ahead, l.Running, l.Parked, when(l.Until)}
			body.ETASeconds = secondsInLine(l)
			break
		}
		body.ETASeconds = secondsFor(w.Ahead.Position+1, w.Rate)
	case job.Scheduled, job.Held:
		body.RunAt = when(w.Job.RunAt)
	}
	body.ExpiresAt = when(w.Job.ExpiresAt())
	for i := range w.Waits {
		body.WaitsFor = append(body.WaitsFor, whyWait{w.Waits[i].Name, w.Waits[i].ID, w.Waits[i].Status.Shown()})
	}
	return write(c, http.StatusOK, &body)
}

// reasons says in words what stands between the job and its end.
func (w *Why) reasons() []string {
	all := w.obstacles()
	if j := &w.Job; j.Cause == job.HeartbeatStopped || j.Cause == job.MaxTimeExceeded {
		limit, _, _ := strings.Cut(j.LastError, "; ") // behind it is what the handler said
		all = append(all, "an attempt before ended with "+string(j.Cause)+": "+limit)
	}
	if at := w.Job.ExpiresAt(); !at.IsZero() {
		all = append(all, "it expires at "+at.Format(time.RFC3339)+", unless a worker claims it")
	}
	return all
}

func (w *Why) obstacles() []string {
	switch status := w.Job.Status.Shown(); {
	case status.Ended():
		return []string{"it has ended: " + string(status)}
	case status == job.Processing && w.Job.CancelRequested:
		return []string{"it is running, and was asked to stop"}
	case status == job.Processing:
		return []string{fmt.Sprintf("it is running: attempt %d", w.Job.Attempt)}
	case status == job.Scheduled:
		return []string{w.scheduled()}
	case status == job.Waiting:
		return []string{w.waits()}
	case status == job.Held && w.Holder == "":
		return []string{"it waits for the job that has its unique key"}
	case status == job.Held:
		return []string{"it waits for job " + string(w.Holder) + ", which has its unique key"}
	}
	var all []string
	queue := w.Job.QueueName()
	if w.Paused != nil {
		all = append(all, w.Paused.Words())
	}
	switch {
	case w.Workers > 0:
	case queue == job.MainQueue:
		all = append(all, "no worker is running")
	default:
		all = append(all, "no worker takes jobs of its queue "+queue)
	}
	all = append(all, w.line()...)
	all = append(all, w.ahead()...)
	if w.Workers > 0 && w.FreeSlots == 0 {
		all = append(all, w.noSlot())
	}
	if !w.Gate.Open {
		all = append(all, "the gate is closed: "+cmp.Or(w.Gate.Reason, "the system is unhealthy"))
	}
	if len(all) == 0 {
		all = append(all, "it is next")
	}
	return all
}

// waits says for which jobs of its flow a WAITING job waits.
func (w *Why) waits() string {
	var parts []string
	for i := range w.Waits {
		j := &w.Waits[i]
		var how string
		switch status := j.Status.Shown(); {
		case status == job.Processing && j.Attempt > 1:
			how = fmt.Sprintf("attempt %d runs", j.Attempt)
		case status == job.Processing:
			how = "running"
		case status == job.Scheduled && j.RetryCount > 0:
			how = "failed " + times(j.RetryCount) + ", tried again"
		case status.Ended():
			how = "ended " + string(status) + ", until it is requeued"
		default:
			how = strings.ToLower(string(status))
		}
		parts = append(parts, j.Name+" ("+how+")")
	}
	if more := w.WaitsOpen - len(w.Waits); more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	if parts == nil {
		return "it waits for jobs of its flow"
	}
	return fmt.Sprintf("it waits for %d of %d: %s", w.WaitsOpen, w.WaitsAll, strings.Join(parts, ", "))
}

// noSlot says why no slot is free for the job.
func (w *Why) noSlot() string {
	var parts []string
	for _, tiers := range slices.Sorted(maps.Keys(w.OwnFree)) {
		verb := "slots are free and belong to "
		if w.OwnFree[tiers] == 1 {
			verb = "slot is free and belongs to "
		}
		parts = append(parts, fmt.Sprintf("%d %s%s", w.OwnFree[tiers], verb, strings.ReplaceAll(tiers, "+", " and ")))
	}
	if parts == nil {
		return "every slot is busy" + w.running()
	}
	return "every other slot is busy" + w.running() + "; " + strings.Join(parts, "; ")
}

func (w *Why) scheduled() string {
	due := w.Job.RunAt.UTC().Format(time.RFC3339)
	if w.Job.Cause == job.UnknownJobType {
		return "no worker knows its type; the next attempt is not before " + due
	}
	if w.Job.RetryCount > 0 {
		return fmt.Sprintf("it failed %s and waits until %s", times(w.Job.RetryCount), due)
	}
	return "it is not due before " + due
}

// line says what keeps the line of the job, if its key may not start an attempt now.
func (w *Why) line() []string {
	switch l := w.Line; {
	case l == nil || !l.Parked:
		return nil
	case !l.Until.IsZero():
		return []string{"its key may start no attempt before " + l.Until.UTC().Format(time.RFC3339)}
	case l.Running > 0:
		return []string{fmt.Sprintf("its key may run no more at the same time: %d of its attempts run", l.Running)}
	}
	return []string{"its key may start no attempt now"}
}

func (w *Why) ahead() (all []string) {
	if w.Line != nil {
		if n := w.Ahead.Position; n > 0 {
			all = append(all, jobs(n, "")+" ahead in its line")
		}
		if w.Line.Rate == 0 {
			all = append(all, "no attempt of its line has ended in the last five minutes, so when it ends is not known")
		}
		return all
	}
	if w.Ahead.ByTier == nil {
		if n := w.Ahead.Position; n > 0 {
			all = append(all, jobs(n, "")+" ahead")
		}
		return all
	}
	for _, tier := range slices.Sorted(maps.Keys(w.Ahead.ByTier)) {
		if n := w.Ahead.ByTier[tier]; n > 0 {
			all = append(all, jobs(n, tier)+" ahead")
		}
	}
	return all
}

func (w *Why) running() string {
	var parts []string
	for _, tier := range slices.Sorted(maps.Keys(w.Ahead.Running)) {
		if n := w.Ahead.Running[tier]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, tier))
		}
	}
	if parts == nil {
		return ""
	}
	return ": " + strings.Join(parts, ", ") + " running"
}

// jobs is "1 PAID job is" or "3 PAID jobs are".
func jobs(n int64, tier job.Tier) string {
	name, verb := "jobs", "are"
	if n == 1 {
		name, verb = "job", "is"
	}
	if tier != "" {
		name = string(tier) + " " + name
	}
	return fmt.Sprintf("%d %s %s", n, name, verb)
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

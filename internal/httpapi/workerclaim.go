package httpapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierq/tierq/internal/job"
)

// The bounds of a claim.
const (
	maxClaim       = job.MaxBatch
	maxClaimQueues = 100
	leastLease     = 5    // seconds
	mostLease      = 3600 // seconds
	mostRepeats    = 1000 // of a claim, within the minute in which it is remembered
)

// claimAsked is the body of a claim, with the reports that it carries.
type claimAsked struct {
	job.WorkerClaim
	reportsAsked
	running  int             // -1 = it does not say
	info     *job.WorkerInfo // nil = the same
	keyTiers bool            // Tiers are those of the caller's key, because the claim names none
}

var claimShape = shape[claimAsked]{lists: true, members: map[string]member[claimAsked]{
	"worker":  func(a *claimAsked, v jsontext.Value) (err error) { a.Worker, err = workerName(v); return err },
	"claimId": func(a *claimAsked, v jsontext.Value) (err error) { a.ID, err = workerName(v); return err },
	"repeat": func(a *claimAsked, v jsontext.Value) (err error) {
		a.Repeat, err = wholeNumber(v, 0, mostRepeats)
		return err
	},
	"queues": func(a *claimAsked, v jsontext.Value) (err error) {
		a.Queues, err = texts(v, maxClaimQueues)
		return err
	},
	"tiers": func(a *claimAsked, v jsontext.Value) error {
		names, err := texts(v, maxClaimQueues)
		for _, name := range names {
			tier := tierNamed(name)
			if tier == "" {
				return reason("has a text that is no tier's name")
			}
			a.Tiers = append(a.Tiers, tier)
		}
		return err
	},
	"max": func(a *claimAsked, v jsontext.Value) (err error) {
		a.Max, err = wholeNumber(v, 1, maxClaim)
		return err
	},
	"wait": func(a *claimAsked, v jsontext.Value) (err error) {
		if v.Kind() == '"' {
			a.Wait, err = waitAsked(text(v))
			return err
		}
		a.Wait, err = wholeSeconds(v, 0, int(maxWait/time.Second))
		return err
	},
	"leaseSeconds": func(a *claimAsked, v jsontext.Value) (err error) {
		a.Lease, err = wholeSeconds(v, leastLease, mostLease)
		return err
	},
	"info": func(a *claimAsked, v jsontext.Value) error {
		asked := infoAsked{running: -1}
		if err := infoShape.readObject(v, &asked); err != nil {
			return err
		}
		a.info, a.running = &asked.WorkerInfo, asked.running
		return nil
	},
	"reports": func(a *claimAsked, v jsontext.Value) (err error) {
		a.reports, a.wrong, err = readReports(v)
		return err
	},
}}

// workerName reads the name of a worker or of a claim, which becomes a part of keys in Redis.
func workerName(v jsontext.Value) (string, error) {
	name := text(v)
	if !plain(name) {
		return "", reason("must be 1 to 64 of A-Z a-z 0-9 . _ -")
	}
	return name, nil
}

// claimedBody is the answer to a claim.
type claimedBody struct {
	Worker       string          `json:"worker"`
	State        job.WorkerState `json:"state"`
	ClaimID      string          `json:"claimId"`
	HeldMs       int64           `json:"heldMs"`
	RetryAfterMs int             `json:"retryAfterMs"`
	Reported     []endBody       `json:"reported"`
	Jobs         []claimedJob    `json:"jobs"`
}

// claimedJob is a job for the worker that runs it: payload and checkpoint are not redacted.
type claimedJob struct {
	JobID            job.ID         `json:"jobId"`
	Type             string         `json:"type"`
	Queue            string         `json:"queue"`
	Tier             job.Tier       `json:"tier"`
	Payload          jsontext.Value `json:"payload"`
	Attempt          int            `json:"attempt"`
	RetryCount       int            `json:"retryCount"`
	MaxRetries       int            `json:"maxRetries"`
	Generation       int            `json:"generation"`
	Checkpoint       jsontext.Value `json:"checkpoint"`
	TraceID          *string        `json:"traceId"`
	Traceparent      *string        `json:"traceparent"`
	FlowID           *job.ID        `json:"flowId"` // null: it is of no flow
	Lease            string         `json:"lease"`
	LeaseForMs       int64          `json:"leaseForMs"`
	HeartbeatEveryMs int64          `json:"heartbeatEveryMs"`
	EndsInMs         int64          `json:"endsInMs"`
	LeaseUntil       string         `json:"leaseUntil"`
	EndBy            string         `json:"endBy"`
}

// workerClaim serves POST /api/worker/claim: it carries out the reports that come with it, and answers as soon as any
// job is there.
func (a *api) workerClaim(c *gin.Context) error {
	asked := claimAsked{WorkerClaim: job.WorkerClaim{Key: callerOf(c).Owner(), Max: 1}, running: -1}
	done, err := a.readWorker(c, func(body []byte) error { return claimShape.readObject(body, &asked) })
	defer done()
	began := a.Now()
	if err == nil {
		err = a.checkClaim(c, &asked)
	}
	if err != nil {
		return err
	}
	a.Leases.See(job.WorkerSight{
		Key: asked.Key, Worker: asked.Worker, Queues: asked.Queues, Running: asked.running, Info: asked.info,
		BeatEvery: job.BeatEvery(cmp.Or(asked.Lease, job.LeastLease)),
	})
	body := claimedBody{Worker: asked.Worker, ClaimID: asked.ID, Jobs: []claimedJob{}}
	body.Reported = a.endAll(c, asked.reports, asked.wrong)
	if asked.Wait > 0 && !a.Leases.Draining() {
		leave, err := a.enter(c)
		if err != nil {
			asked.Wait = 0 // no place to wait: the claim takes what is there now
		} else {
			defer leave()
			extend(c, asked.Wait)
		}
	}
	leases, err := a.Leases.Claim(c.Request.Context(), asked.WorkerClaim)
	switch {
	case errors.Is(err, job.ErrBadTiers):
		return asked.badTiers(err)
	case err != nil && !errors.Is(err, context.Canceled) && len(asked.reports) > 0:
		// The answers to the reports must not be lost.
		a.Log.Debug("a claim found no store", "err", err, "trace_id", traceOf(c))
		body.RetryAfterMs = 1000
	case err != nil:
		return inDoubtClaim(overLeases(callerOf(c), err))
	}
	body.State = a.Leases.Asked(asked.Key, asked.Worker)
	if a.Leases.Draining() || body.State != job.WorkerRuns ||
		asked.Wait == 0 && len(leases) == 0 && body.RetryAfterMs == 0 {
		body.RetryAfterMs = 1000
	}
	now, clock := a.Now(), a.Clock()
	body.HeldMs = now.Sub(began).Milliseconds()
	for i := range leases {
		body.Jobs = append(body.Jobs, claimedOf(&leases[i], now, clock))
	}
	text, err := encode(&body)
	if err == nil {
		// After the answer this error would prove nothing: a worker may close its connection once it has read it.
		err = c.Request.Context().Err()
	}
	if err == nil {
		c.Writer.Header()["Content-Type"] = jsonType
		c.Writer.WriteHeader(http.StatusOK)
		_, err = c.Writer.Write(text)
	}
	if err != nil { // the worker has gone, and did not get its jobs
		a.Leases.GiveBack(leases)
	}
	return nil
}

// overLeases turns a job.ErrRateLimited into the answer to a claim whose key runs as many jobs as it may.
func overLeases(caller *job.Caller, err error) error {
	if !errors.Is(err, job.ErrRateLimited) {
		return err
	}
	return &problem{
		kind: rateLimited, retry: time.Duration(retryAfter(err)) * time.Second,
		detail: "the workers of this key run " + strconv.Itoa(caller.Key.Leases) + " jobs, which is as many as it may at once",
	}
}

// inDoubtClaim turns an error of the store into a 503. A claim that was carried out meanwhile gives its jobs to a claim
// with the same claimId, or loses them after the lease's length.
func inDoubtClaim(err error) error {
	if errors.Is(err, job.ErrAmbiguous) {
		return &problem{
			kind: systemUnhealthy, detail: "the store did not answer: send the same claim again, with its claimId",
		}
	}
	return err
}

// claimedOf returns a job for its worker. Its durations count from now; clock is Redis' time now.
func claimedOf(l *job.WorkerLease, now, clock time.Time) claimedJob {
	leaseFor, endsIn := max(l.Until.Sub(now), 0), max(l.Ends.Sub(now), 0)
	j := claimedJob{
		JobID: l.ID, Type: l.Type, Queue: l.QueueName(), Tier: l.Tier, Payload: l.Payload, Attempt: l.Attempt,
		RetryCount: l.RetryCount, MaxRetries: l.MaxRetries, Generation: l.Generation,
		TraceID: orNull(l.TraceID), Lease: l.Sealed, LeaseForMs: leaseFor.Milliseconds(),
		HeartbeatEveryMs: job.BeatEvery(l.For).Milliseconds(), EndsInMs: endsIn.Milliseconds(),
		LeaseUntil: stamp(clock.Add(leaseFor)), EndBy: stamp(l.StartedAt.Add(l.MaxRun)),
	}
	if l.Flow != "" {
		j.FlowID = &l.Flow
	}
	if saved := jsontext.Value(l.Checkpoint); saved.IsValid() {
		j.Checkpoint = saved
	}
	if len(l.TraceID) == 32 && hexadecimal(l.TraceID) && l.SpanID != "" {
		parent := "00-" + l.TraceID + "-" + l.SpanID + "-01"
		j.Traceparent = &parent
	}
	return j
}

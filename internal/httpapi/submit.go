package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tierq/tierq/internal/job"
)

const (
	pollPath    = "/result/poll?jobId="
	defaultType = "SIMULATION"
	maxTierName = 31
)

// The headers of a 202; shared, never written to.
var (
	jsonType  = []string{"application/json"}
	oneSecond = []string{"1"}
	replayed  = []string{"true"}
)

// noTier returns an UNKNOWN_TIER that lists the known tiers.
func (a *api) noTier(fields ...fieldError) *problem {
	var names []string
	for _, p := range a.Plans.All() {
		names = append(names, strings.ToLower(string(p.Tier)))
	}
	return &problem{kind: unknownTier, detail: "known tiers, as a path has them: " + strings.Join(names, ", "),
		fields: fields}
}

// submit serves POST /:tier/submit.
func (a *api) submit(c *gin.Context) error {
	plan, ok := a.tier(c.Param("tier"))
	if !ok {
		return a.noTier()
	}
	if err := mayTier(c, plan.Tier); err != nil {
		return err
	}
	s, err := a.asks(c, tierBody, func(*asked) (job.Plan, error) { return plan, nil })
	if err != nil {
		return err
	}
	r, err := a.send(c, s)
	if err != nil {
		return err
	}
	a.accepted(c, r)
	return nil
}

// asks reads a request for a job, and returns the submission after checking it against the plan and the type.
func (a *api) asks(c *gin.Context, shape *submitBody, plan func(*asked) (job.Plan, error)) (job.Submission, error) {
	if err := noQuery(c); err != nil {
		return job.Submission{}, err
	}
	key, err := keyFrom(c.Request.Header)
	if err != nil {
		return job.Submission{}, err
	}
	body, err := a.readBody(c)
	if err != nil {
		return job.Submission{}, err
	}
	asked := &visitOf(c).asked
	if err := shape.decode(body, asked); err != nil {
		return job.Submission{}, err
	}
	asked.key = key
	p, err := plan(asked)
	if err != nil {
		return job.Submission{}, err
	}
	s, err := a.submission(callerOf(c), asked, p, traceOf(c))
	if err == nil && s.Idempotency.Key != "" {
		err = a.spendIdempotency(c, 1)
	}
	return s, err
}

// submission checks the values of a body against the caller, the plan, the type and the clock, and returns the
// submission.
func (a *api) submission(caller *job.Caller, asked *asked, plan job.Plan, trace string) (s job.Submission, err error) {
	if asked.typ == "" {
		asked.typ = defaultType
	}
	if err := mayType(caller, asked.typ); err != nil {
		return s, err
	}
	if asked.callback != "" {
		if err := mayCallBack(caller); err != nil {
			return s, err
		}
	}
	queue, err := a.queueFor(caller, asked, plan)
	if err != nil {
		return s, err
	}
	s = job.Submission{
		Tier: plan.Tier, Type: asked.typ, Payload: asked.payload, MaxRetries: min(asked.maxRetries, plan.MaxRetries),
		TraceID: trace, Owner: caller.Owner(), Quota: caller.Key.InFlight,
	}
	s.From = caller.From
	s.CallbackURL, s.Everybody = asked.callback, asked.typ == reportType && caller.Operator()
	if queue.Name != job.MainQueue {
		s.Queue, s.MaxRunMs = queue.Name, queue.MaxRun.Milliseconds()
	}
	if asked.maxRun > 0 {
		s.MaxRunMs = asked.maxRun.Milliseconds()
	}
	if asked.delay > 0 || !asked.runAt.IsZero() {
		if s.Delay, s.RunAt, err = asked.runsAt(a.Clock()); err != nil {
			return s, err
		}
	}
	if s.ExpiresMs, err = asked.expiry(a.Clock(), &s, plan); err != nil {
		return s, err
	}
	if u := &asked.unique; u.key != "" {
		s.Unique, s.UniqueOn, s.MaxWait = job.Unique(uniqueHash(caller, u), u.while), u.on, u.maxWait
	}
	if asked.lineKey != "" {
		switch {
		case !plan.Lines.On():
			return s, invalid("key", "the tier "+string(plan.Tier)+" has no lines: its plan says lines off")
		case s.Unique != "" && a.Partitions > 1:
			return s, invalid("key", "excludes unique where a server has several partitions (TIERQ_PARTITIONS)")
		}
		s.Line = job.LineOf(asked.lineKey)
	}
	if asked.batch != "" {
		if err := mayBatch(caller, &s); err != nil {
			return s, err
		}
		s.Batch = string(asked.batch)
	}
	if asked.key != "" {
		s.Idempotency = idempotency(caller, &s, asked)
	}
	return s, nil
}

// check checks a well-formed body against the plan, the queue and the job type. A declared queue takes types that this
// server does not run: their payload may be any JSON.
func (a *api) check(asked *asked, plan job.Plan, queue job.Queue) error {
	if len(asked.payload) > a.PayloadLimit {
		return tooLarge(fmt.Sprintf("the payload has %d bytes; at most %d are taken", len(asked.payload), a.PayloadLimit))
	}
	if asked.maxRetries > plan.MaxRetries && !asked.spelling.clamps {
		return invalid(asked.spelling.maxRetries, fmt.Sprintf("may lower the tier's %d, not raise it", plan.MaxRetries))
	}
	if asked.callback != "" {
		if a.CheckURL == nil {
			return invalid("callbackUrl", "this server sends no callbacks")
		}
		if err := a.CheckURL(asked.callback); err != nil {
			return invalid("callbackUrl", shorten(err.Error()))
		}
	}
	if err := a.checkType(asked, queue); err != nil {
		return err
	}
	longest := (job.Options{MaxRunMs: queue.MaxRun.Milliseconds()}).MaxRun(plan)
	if asked.maxRun > longest {
		return invalid("maxProcessingSeconds", "may shorten the "+longest.String()+" of its queue or tier, not lengthen it")
	}
	return nil
}

// checkType checks the type and the payload.
func (a *api) checkType(asked *asked, queue job.Queue) error {
	err := a.Types.Check(asked.typ, asked.payload)
	if errors.Is(err, job.ErrUnknownType) && queue.Name != job.MainQueue && queue.Takes(asked.typ) {
		err = nil
	}
	if text, has := queue.Schemas[asked.typ]; has && err == nil {
		err = a.Schemas.Check(text, asked.payload)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, job.ErrUnknownType):
		known := "known types: " + strings.Join(a.Types.Types(), ", ")
		return &problem{kind: unknownJobType, detail: known, fields: []fieldError{{asked.spelling.typ, known}}}
	case errors.Is(err, job.ErrBadPayload):
		fields := payloadFields(err)
		if len(fields) == 0 {
			fields = []fieldError{{"payload", "does not fit the type"}}
		}
		return &problem{kind: invalidPayload, detail: fields[0].Field + ": " + fields[0].Reason, fields: fields}
	}
	return fmt.Errorf("check payload of %s: %w", asked.typ, err)
}

// receipt has the values of the answer to an accepted submit.
type receipt struct {
	job.Accepted
	status job.Status
	// the most that the job may have, -1 = the plan's; in a replay retries, trace and created are those of the first
	// submit
	retries int // of a deduplicated submit too they are the other job's
	trace   string
	created time.Time
	in      time.Duration // the time after which a poll makes sense
}

// send submits a job, within a span of the caller's trace.
func (a *api) send(c *gin.Context, s job.Submission) (receipt, error) {
	ctx := c.Request.Context()
	var end func(job.ID, error)
	if a.Trace != nil {
		s.SpanID, end = a.Trace(ctx, s.Tier, s.TraceID, spanFrom(c.Request.Header))
	}
	accepted, err := a.Submit.Submit(ctx, s)
	if end != nil {
		end(accepted.ID, err)
	}
	if errors.Is(err, job.ErrFateUnknown) {
		return receipt{}, &problem{kind: outcomeUnknown, jobID: accepted.ID}
	}
	if err != nil {
		return receipt{}, a.overQuota(err, &s)
	}
	r := receipt{
		Accepted: accepted,
		status:   firstStatus(&s),
		retries:  s.MaxRetries,
		trace:    s.TraceID,
		in:       a.pollIn(&s, accepted.Replayed || accepted.Deduplicated),
	}
	if accepted.Held {
		r.status = job.Held
	}
	if accepted.Replayed || accepted.Deduplicated {
		first := a.asItIs(ctx, accepted.ID)
		r.status, r.created = first.Status.Shown(), first.ArrivedAt
		if !first.ArrivedAt.IsZero() {
			r.retries = first.MaxRetries
		}
		if first.TraceID != "" {
			r.trace = first.TraceID
		}
	}
	return r, nil
}

// pollIn returns the time after which a poll of an accepted job makes sense.
func (a *api) pollIn(s *job.Submission, replayed bool) time.Duration {
	in := a.Submit.Hint(s.Tier)
	switch {
	case replayed:
		return in
	case !s.RunAt.IsZero():
		return max(in, s.RunAt.Sub(a.Clock()))
	}
	return max(in, s.Delay)
}

func firstStatus(s *job.Submission) job.Status {
	if s.Delayed() {
		return job.Scheduled
	}
	return job.Pending
}

// asItIs returns the present state of an earlier submit's job. If it cannot be read, asItIs returns a job in
// PENDING.
func (a *api) asItIs(ctx context.Context, id job.ID) job.Job {
	j, err := a.Jobs.Find(ctx, id)
	if err != nil {
		return job.Job{ID: id, Status: job.Pending}
	}
	return j
}

// accepted writes the 202 in the seed's exact shape. No value needs escaping: an id is hexadecimal, a status a
// word, and a timestamp digits.
func (a *api) accepted(c *gin.Context, r receipt) {
	receiptHeaders(c, r, pollPath)
	v := visitOf(c)
	out := append(v.answer[:0], `{"apiResponseData":{"jobId":"`...)
	out = append(out, r.ID...)
	out = append(out, `","currentJobStatus":"`...)
	out = append(out, r.status...)
	out = append(out, '"')
	if r.Deduplicated {
		out = append(out, `,"deduplicated":true`...)
	}
	if r.Replaced {
		out = append(out, `,"replaced":true`...)
	}
	out = append(out, `},"timestamp":"`...)
	out = a.Now().UTC().AppendFormat(out, stampFormat)
	out = append(out, `"}`...)
	v.answer = out
	c.Writer.WriteHeader(http.StatusAccepted)
	_, _ = c.Writer.Write(out) // fails only if the client has left
}

func receiptHeaders(c *gin.Context, r receipt, path string) {
	h := c.Writer.Header()
	h["Content-Type"] = jsonType
	h["Location"] = []string{path + string(r.ID)}
	h["Retry-After"] = oneSecond
	if n := seconds(r.in); n > 1 {
		h["Retry-After"] = []string{strconv.Itoa(n)}
	}
	if r.Replayed {
		h["Idempotency-Replayed"] = replayed
	}
}

// tier returns the plan of a path segment, which must be the tier's name in lower case, byte for byte.
func (a *api) tier(segment string) (job.Plan, bool) {
	name := pathTier(segment)
	if name == "" {
		return job.Plan{}, false
	}
	return a.Plans.Plan(name)
}

func pathTier(segment string) job.Tier {
	var name [maxTierName]byte
	if len(segment) > len(name) {
		return ""
	}
	for i := range len(segment) {
		c := segment[i]
		switch {
		case 'a' <= c && c <= 'z':
			c -= 'a' - 'A'
		case '0' <= c && c <= '9', c == '_':
		default:
			return ""
		}
		name[i] = c
	}
	return job.Tier(name[:len(segment)])
}

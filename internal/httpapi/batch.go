package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tierq/tierq/internal/job"
)

// batchEntry is the answer to one entry of a batch. An accepted entry has a jobId and its status, a refused entry has
// the error members, and an entry with an unknown outcome, or a unique key that another job holds, has a jobId and the
// error members.
type batchEntry struct {
	JobID     job.ID       `json:"jobId,omitzero"`
	Status    job.Status   `json:"currentJobStatus,omitzero"`
	Replayed  bool         `json:"idempotencyReplayed,omitzero"`
	Dedup     bool         `json:"deduplicated,omitzero"`
	Replaced  bool         `json:"replaced,omitzero"`
	ErrorCode string       `json:"errorCode,omitzero"`
	Message   string       `json:"message,omitzero"`
	Detail    string       `json:"detail,omitzero"`
	Errors    []fieldError `json:"errors,omitempty"`
	// RetryAfter is the Retry-After of the same submit alone, in seconds.
	RetryAfter int `json:"retryAfter,omitzero"`
}

// submitBatch serves POST /:tier/submit/batch: each entry is accepted or refused by itself.
func (a *api) submitBatch(c *gin.Context) error {
	plan, ok := a.tier(c.Param("tier"))
	if !ok {
		return a.noTier()
	}
	if err := mayTier(c, plan.Tier); err != nil {
		return err
	}
	if err := noQuery(c); err != nil {
		return err
	}
	if _, sent := c.Request.Header[keyHeader]; sent {
		return invalid(keyHeader, "a batch takes no key for all; give each entry an idempotencyKey of its own")
	}
	entries, done, err := a.readBatch(c)
	defer done()
	if err != nil {
		return err
	}
	if err := a.spendBatch(c, len(entries)); err != nil {
		return err
	}
	b := batch{api: a, c: c, answers: make([]batchEntry, len(entries)), wait: a.Submit.Hint(plan.Tier)}
	for i, text := range entries {
		b.take(i, text, plan)
	}
	if err := a.spendIdempotency(c, b.keyed()); err != nil {
		return err
	}
	if err := b.send(plan.Tier); err != nil {
		return err
	}
	b.look()
	c.Writer.Header().Set("Retry-After", fmt.Sprint(seconds(b.wait)))
	return write(c, http.StatusAccepted, &struct {
		Data      []batchEntry `json:"apiResponseData"`
		Timestamp string       `json:"timestamp"`
	}{b.answers, stamp(a.Now())})
}

// batch is a batch request while it is handled: the submissions made from its valid entries, and the answers of all
// entries.
type batch struct {
	*api
	c           *gin.Context
	answers     []batchEntry
	asked       asked // the entry that is being read
	submissions []job.Submission
	entry       []int         // the index of the entry, by submission
	wait        time.Duration // when to poll; if entries were refused for now, the longest of their waits
	refused     bool
}

// take reads one entry and adds its submission, or writes its refusal into its answer.
func (b *batch) take(i int, text []byte, plan job.Plan) {
	s, err := b.submissionOf(text, plan)
	if err != nil {
		b.refuse(i, err)
		return
	}
	b.submissions, b.entry = append(b.submissions, s), append(b.entry, i)
}

// keyed counts the submissions that have an Idempotency-Key.
func (b *batch) keyed() (n int) {
	for i := range b.submissions {
		if b.submissions[i].Idempotency.Key != "" {
			n++
		}
	}
	return n
}

func (b *batch) submissionOf(text []byte, plan job.Plan) (job.Submission, error) {
	if int64(len(text)) > b.bodyLimit {
		return job.Submission{}, tooLarge(fmt.Sprintf("the entry has more than %d bytes", b.bodyLimit))
	}
	if err := batchBody.decode(text, &b.asked); err != nil {
		return job.Submission{}, err
	}
	return b.submission(callerOf(b.c), &b.asked, plan, cmp.Or(b.asked.trace, traceOf(b.c)))
}

// refuse writes into an entry's answer why it was not accepted. The cause of an internal error goes to the log
// only.
func (b *batch) refuse(i int, err error) {
	p, known := explain(err)
	if !known {
		b.Log.Error("an entry of a batch failed", "err", err, "trace_id", traceOf(b.c))
	}
	answer := &b.answers[i]
	answer.ErrorCode, answer.Message, answer.Detail, answer.Errors = p.kind.code, p.kind.message, p.detail, p.fields
	answer.JobID = p.jobID
	if answer.Detail == "" {
		answer.Detail = p.kind.message
	}
	if p.kind != systemUnhealthy && p.kind != queueFull && p.kind != rateLimited {
		return
	}
	answer.RetryAfter = retryAfter(err)
	if in := time.Duration(answer.RetryAfter) * time.Second; !b.refused || in > b.wait {
		b.wait, b.refused = in, true
	}
}

// send submits the valid entries in one call. It returns an error only if the client has left.
func (b *batch) send(tier job.Tier) error {
	if len(b.submissions) == 0 {
		return nil
	}
	ctx := b.c.Request.Context()
	end := b.spans(ctx, tier)
	accepted, errs := b.Submit.SubmitBatch(ctx, b.submissions)
	end(accepted, errs)
	if err := ctx.Err(); err != nil {
		return err
	}
	for n, i := range b.entry {
		if err := errs[n]; err != nil {
			b.refuse(i, b.overQuota(err, &b.submissions[n]))
			if errors.Is(err, job.ErrFateUnknown) {
				b.answers[i].JobID = accepted[n].ID
			}
			continue
		}
		one := accepted[n]
		b.answers[i] = batchEntry{JobID: one.ID, Status: firstStatus(&b.submissions[n]), Replayed: one.Replayed,
			Dedup: one.Deduplicated, Replaced: one.Replaced,
			RetryAfter: seconds(b.pollIn(&b.submissions[n], one.Replayed || one.Deduplicated))}
		if one.Held {
			b.answers[i].Status = job.Held
		}
	}
	return nil
}

// spans gives each submission a span. The submissions with the request's trace id share one; each of the others has
// its own. end ends all spans.
func (b *batch) spans(ctx context.Context, tier job.Tier) (end func([]job.Accepted, []error)) {
	if b.Trace == nil {
		return func([]job.Accepted, []error) {}
	}
	request := traceOf(b.c)
	shared, endShared := b.Trace(ctx, tier, request, spanFrom(b.c.Request.Header))
	own := map[int]func(job.ID, error){}
	for i := range b.submissions {
		s := &b.submissions[i]
		s.SpanID = shared
		if s.TraceID != request {
			s.SpanID, own[i] = b.Trace(ctx, tier, s.TraceID, "")
		}
	}
	return func(accepted []job.Accepted, errs []error) {
		endShared("", nil)
		for i, end := range own {
			end(accepted[i].ID, errs[i])
		}
	}
}

// look sets the present status of the jobs of replayed and deduplicated entries. It asks for as many jobs as it can
// within a second; the others keep the status that a new job would have.
func (b *batch) look() {
	ctx, cancel := context.WithTimeout(b.c.Request.Context(), time.Second)
	defer cancel()
	for i := range b.answers {
		if answer := &b.answers[i]; (answer.Replayed || answer.Dedup) && ctx.Err() == nil {
			answer.Status = b.asItIs(ctx, answer.JobID).Status.Shown()
		}
	}
}

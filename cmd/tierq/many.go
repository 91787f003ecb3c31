package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/tierq/tierq/client"
)

const (
	batchSize = 1000
	patience  = 30 * time.Second // the longest Retry-After that a bulk submit waits for
	maxTold   = 20               // refusals printed one by one
)

// sent is the result for one job of a bulk submit.
type sent struct {
	Line     int                 `json:"line"`
	JobID    string              `json:"jobId,omitempty"`
	Status   client.Status       `json:"currentJobStatus,omitempty"`
	Replayed bool                `json:"idempotencyReplayed,omitempty"`
	Dedup    bool                `json:"deduplicated,omitempty"`
	Replaced bool                `json:"replaced,omitempty"`
	Key      string              `json:"idempotencyKey,omitempty"` // of a job with an unknown outcome, to submit it again
	Code     string              `json:"errorCode,omitempty"`
	Message  string              `json:"message,omitempty"`
	Fields   []client.FieldError `json:"errors,omitempty"`
}

// bulk submits many jobs and prints their results.
type bulk struct {
	*session
	tier     client.Tier
	list     *list[sent]
	keep     bool   // keep the accepted jobs, to follow them
	kept     []sent // with keep
	accepted int
	refused  int
	unknown  int   // jobs whose outcome is unknown
	first    error // the first refusal
	shown    *progress
	got      atomic.Int64 // accepted so far; the drawing goroutine reads it too
}

func (s *session) submitMany(ctx context.Context, tier client.Tier, a *asked, bounded bool) error {
	own := *a
	own.key = cmp.Or(a.key, rand.Text()) // printed if the submit ends early
	a = &own
	next, total, done, err := s.source(a, bounded)
	if err != nil {
		return err
	}
	defer done()
	b := &bulk{session: s, tier: tier, keep: a.wait, list: newList(s.output, func(v sent) string { return v.JobID },
		column[sent]{head: "LINE", cell: func(v sent) string { return strconv.Itoa(v.Line) }},
		column[sent]{head: "JOB", cell: func(v sent) string { return dash(v.JobID) }},
		column[sent]{head: "STATUS", cell: func(v sent) string { return dash(string(v.Status)) },
			color: func(v sent) string { return statusColors[v.Status] }},
		column[sent]{head: "REFUSED", cell: func(v sent) string { return dash(v.Message) }},
	)}
	b.shown = noProgress()
	if a.wait || !s.isTTY(s.stdout) { // otherwise the printed ids show the progress
		b.shown = s.count(total, func() string { return fmt.Sprintf("%d accepted ", b.got.Load()) })
	}
	defer b.shown.end()
	err = b.all(ctx, next)
	b.shown.end()
	return b.finish(ctx, a, err)
}

// finish prints the summary, and follows the accepted jobs if --wait asks for that. After any error the accepted
// jobs are still printed.
func (b *bulk) finish(ctx context.Context, a *asked, ended error) error {
	for i := 0; ended != nil && i < len(b.kept); i++ {
		if err := b.print(b.kept[i]); err != nil {
			return err
		}
	}
	if b.list.n > 0 || ended == nil && !b.keep && b.format != asTable {
		if err := b.list.end(nil); err != nil {
			return err
		}
	}
	if ended != nil && b.accepted+b.refused+b.unknown > 0 {
		b.say("%d accepted, %d refused, %d unknown before it ended; the same command again with --idempotency-key %s "+
			"makes no job twice",
			b.accepted, b.refused, b.unknown, a.key)
	}
	if ended == nil && b.refused > 0 {
		ended = summed{fmt.Sprintf("%d of %d jobs were not accepted", b.refused, b.accepted+b.refused), b.first}
	} else if ended != nil {
		return ended
	}
	b.hint("%d accepted", b.accepted)
	if len(b.kept) == 0 {
		return ended
	}
	ids := make([]string, len(b.kept))
	for i, v := range b.kept {
		ids[i] = v.JobID
	}
	if ended != nil {
		b.say("%s", ended)
	}
	return cmp.Or(b.follow(ctx, ids), ended)
}

// print prints one job: its id, or the requested format.
func (b *bulk) print(v sent) error {
	if b.format == asTable {
		return b.line(v.JobID)
	}
	return b.list.add(v)
}

// all submits the jobs of next, batch by batch. Full batches take less of the server than what a gathering client
// would send: docs/speed/BENCH.md.
func (b *bulk) all(ctx context.Context, next func() (numbered, error)) error {
	for more := true; more; {
		var batch []numbered
		for more && len(batch) < batchSize {
			n, err := next()
			switch {
			case errors.Is(err, io.EOF):
				more = false
			case err != nil:
				return err
			default:
				batch = append(batch, n)
			}
		}
		if len(batch) == 0 {
			break
		}
		if err := b.push(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

// push submits one batch and prints the results. Its error ends the bulk submit; a queue that stays full is such
// an error.
func (b *bulk) push(ctx context.Context, batch []numbered) error {
	outcomes, ended := b.insist(ctx, batch)
	var passing error
	for i, o := range outcomes {
		switch {
		case errors.Is(o.Err, client.ErrNotSent):
			continue
		case ended != nil && o.Err != nil && !answered(o.Err):
			if errors.Is(o.Err, client.ErrOutcomeUnknown) {
				b.unknown++
			}
			continue // the error that ends the bulk submit is printed once
		}
		if err := b.tell(batch[i].line, o); err != nil {
			return err
		}
		if o.Err != nil && mayPass(o.Err) {
			passing = o.Err
		}
	}
	if ended == nil && passing != nil {
		ended = passing // later jobs would be refused too
	}
	return ended
}

// insist submits a batch, and repeats temporarily refused jobs while others are still accepted. The client waits
// between its own tries.
func (b *bulk) insist(ctx context.Context, batch []numbered) ([]client.Outcome, error) {
	out := make([]client.Outcome, len(batch))
	open := make([]int, len(batch))
	for i := range batch {
		open[i] = i
	}
	for {
		jobs := make([]client.Submission, len(open))
		for i, at := range open {
			jobs[i] = batch[at].job
		}
		got, err := b.client.SubmitBatch(ctx, b.tier, jobs)
		if got == nil {
			return nil, err
		}
		var again []int
		took := 0
		for i, at := range open {
			out[at] = got[i]
			if got[i].Err == nil {
				took++
			} else if mayPass(got[i].Err) {
				again = append(again, at)
			}
		}
		b.got.Add(int64(took))
		b.shown.add(took)
		if err != nil || len(again) == 0 || took == 0 {
			return out, err
		}
		open = again
	}
}

// answered reports whether the error is a refusal by the server.
func answered(err error) bool {
	e, ok := errors.AsType[*client.Error](err)
	return ok && e.Status != 0
}

func mayPass(err error) bool {
	return errors.Is(err, client.ErrUnavailable) || errors.Is(err, client.ErrRateLimited)
}

// tell prints the result for one job.
func (b *bulk) tell(line int, o client.Outcome) error {
	v := sent{Line: line, JobID: o.JobID, Status: o.Status, Replayed: o.Replayed, Dedup: o.Deduplicated,
		Replaced: o.Replaced}
	if o.Err == nil {
		b.accepted++
		if b.keep {
			b.kept = append(b.kept, v)
			return nil
		}
		return b.print(v)
	}
	if b.refused++; b.refused == 1 {
		b.first = o.Err
	}
	v.Message = brief(o.Err)
	if e, ok := errors.AsType[*client.Error](o.Err); ok {
		v.Code, v.Fields, v.JobID = e.Code, e.Fields, e.JobID
		if e.Unknown {
			v.Key = e.Key
		}
	}
	if b.keep || b.format == asTable || b.format == asName {
		if b.refused <= maxTold {
			b.say("job %d: %s", line, v.Message)
		}
		return nil
	}
	return b.list.add(v)
}

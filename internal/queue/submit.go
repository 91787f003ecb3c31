package queue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Submit accepts a batch into one partition; every id carries it. OK and DUPLICATE mean accepted; REPLAY that another
// submit with the same Idempotency-Key was, MISMATCH that its body was another one; FULL, QUOTA and LATE not accepted.
// On LATE the process' idea of Redis' time was off: it has been read anew, try again.
func (q *Queue) Submit(ctx context.Context, partition int, batch []job.Submission) ([]job.SubmitReply, error) {
	args, err := q.submitArgs(partition, batch)
	if err != nil {
		return nil, err
	}
	texts, err := q.texts(ctx, q.redis.Main, q.submit, partition, args)
	if err != nil {
		return nil, err
	}
	if len(texts) != len(batch) {
		return nil, fmt.Errorf("submit: %d words for %d entries", len(texts), len(batch))
	}
	replies := make([]job.SubmitReply, len(texts))
	late := false
	for i, text := range texts {
		word, first, _ := strings.Cut(text, " ")
		if replies[i].Word, err = q.submit.word(word); err != nil {
			return nil, err
		}
		switch replies[i].Word {
		case job.Replay:
			replies[i].First = job.ID(first)
		case job.OK, job.Duplicate:
			replies[i].ArrivedAt = msTime(first)
		case job.Full:
			replies[i].Living = first == "living" || first == "bytes"
		}
		late = late || replies[i].Word == job.Late
	}
	if late {
		q.reread(ctx)
	}
	return replies, nil
}

// submitArgs are the arguments of one call. Jobs that are alike share one kind, made once: mostly all of them do.
func (q *Queue) submitArgs(partition int, batch []job.Submission) ([]any, error) {
	args := make([]any, 0, 4+5*len(batch))
	args = append(args, q.opts.PriorityBase, q.clock.notAfter(partition), ms(q.opts.KeepKeys), q.shares())
	var kind any
	var like likeness // of the job before
	for i := range batch {
		s := &batch[i]
		if l := (likeness{s.Tier, q.delay(s), s.MaxRetries, s.Quota, ownerOf(s.Owner, s.Options)}); kind == nil || l != like {
			plan, ok := q.plans.Plan(s.Tier)
			if !ok {
				return nil, fmt.Errorf("submit %s: %w: %s", s.ID, job.ErrUnknownTier, s.Tier)
			}
			kind, like = q.kind(s, plan, l.delay), l
		}
		args = append(args, string(s.ID), kind, descriptor(s.Type, s.TraceID, s.Options), s.Payload, once(s.Idempotency))
	}
	return args, nil
}

// likeness is all that the kind of a submission depends on.
type likeness struct {
	tier       job.Tier
	delay      time.Duration
	maxRetries int
	quota      int
	owner      string
}

// delay is how long from now the job is due, 0 for at once. RunAt is held against what this process knows of Redis'
// time each time the job is sent, so that a repeat does not move it.
func (q *Queue) delay(s *job.Submission) time.Duration {
	if s.RunAt.IsZero() {
		return s.Delay
	}
	return max(s.RunAt.Sub(q.now()), 0)
}

// kind returns what the jobs of a call mostly have in common; the script parses each once: "tier queue max_retries owner
// max_run_ms priority limit delay_ms quota".
func (q *Queue) kind(s *job.Submission, plan job.Plan, delay time.Duration) string {
	b := make([]byte, 0, 128)
	b = append(append(b, s.Tier...), " "+mainQueue+" "...)
	b = strconv.AppendInt(b, int64(s.MaxRetries), 10)
	b = append(append(append(b, ' '), ownerOf(s.Owner, s.Options)...), " "+noMaxRun+" "...)
	b = strconv.AppendInt(b, int64(plan.Priority), 10)
	b = append(append(b, ' '), q.limit(plan, delay > 0)...)
	b = strconv.AppendInt(append(b, ' '), max(delay.Milliseconds(), 0), 10)
	return string(append(append(b, ' '), q.quota(s)...))
}

// once is an Idempotency-Key and the hash of what was asked for; "" = none. A key is a hash too, so it has no space.
func once(i job.Idempotency) string {
	if i.Key == "" {
		return ""
	}
	return i.Key + " " + i.Body
}

// limit is the count of jobs at which one partition refuses a tier: its share.
func (q *Queue) limit(plan job.Plan, delayed bool) string {
	if delayed {
		return strconv.Itoa(q.share(plan, q.opts.ScheduledLimit))
	}
	return strconv.Itoa(q.share(plan, q.opts.Capacity))
}

// noLimit is the largest count that a script tells apart from the next.
const noLimit = "9007199254740991"

// share is a tier's share of one partition's part of a limit, at least 1.
func (s *shared) share(plan job.Plan, limit int) int {
	return max(limit*plan.Share/100/s.opts.Partitions, 1)
}

// shares tells the script what each tier may fill, the smallest share first: of the never-claimed ready jobs, of
// those scheduled at submit and of
// their bytes, of all that live and of their bytes. What a tier has beyond that (jobs that came due, or were
// requeued) is not counted against the
// others.
func (q *Queue) shares() string {
	b := make([]byte, 0, 256)
	for _, p := range q.byShare() {
		b = append(append(b, p.Tier...), ' ')
		b = append(strconv.AppendInt(b, int64(q.share(p, q.opts.Capacity)), 10), ' ')
		b = append(strconv.AppendInt(b, int64(q.share(p, q.opts.ScheduledLimit)), 10), ' ')
		for _, limit := range []int{int(q.livingBytes.Load() / 2), q.opts.LivingLimit, int(q.livingBytes.Load())} {
			if limit <= 0 {
				b = append(append(b, noLimit...), ' ')
				continue
			}
			b = append(strconv.AppendInt(b, int64(q.share(p, limit)), 10), ' ')
		}
	}
	return string(b)
}

// byShare are the plans, the smallest share first.
func (s *shared) byShare() []job.Plan {
	plans := s.plans.All()
	slices.SortStableFunc(plans, func(a, b job.Plan) int { return cmp.Compare(a.Share, b.Share) })
	return plans
}

// quota is how many living jobs of its owner one partition holds when it refuses the next one; "-" = any number.
func (q *Queue) quota(s *job.Submission) string {
	if s.Quota <= 0 {
		return "-"
	}
	return strconv.Itoa(q.part(s.Quota))
}

// part is one partition's part of an owner's quota, rounded up.
func (s *shared) part(quota int) int { return (quota-1)/s.opts.Partitions + 1 }

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

// Submit sends new jobs to one partition, which every id must name. It returns a word per job. OK and DUPLICATE: the
// job is accepted. HELD: it is accepted, and waits for the holder of its unique key. REPLAY: another submit with the
// same Idempotency-Key was accepted. MISMATCH: that submit had another body. UNIQUE, TAKEN and REPLACED name the job
// that has the unique key: it stands for this one, keeps it out, or has this one's payload now. FULL, QUOTA and LATE:
// the job is not accepted. After a LATE Submit has read Redis' clock again, because this process' reading of it was
// wrong, and the caller may try again.
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
		case job.Replay, job.IsUnique, job.IsTaken:
			replies[i].First = job.ID(first)
		case job.Replaced:
			id, due, _ := strings.Cut(first, " ")
			replies[i].First, replies[i].Due = job.ID(id), msTime(due)
		case job.OK, job.IsHeld, job.Duplicate:
			replies[i].ArrivedAt = msTime(first)
		case job.Full:
			replies[i].Living, replies[i].Queue = first == "living" || first == "bytes", first == "queue"
			replies[i].Line = first == "line"
		}
		late = late || replies[i].Word == job.Late
	}
	if late {
		q.reread(ctx)
		q.keepPlaces(ctx)
	}
	return replies, nil
}

// submitArgs returns the arguments of one call. Consecutive jobs with the same properties share one submit_class
// text, which is usually all of them.
func (q *Queue) submitArgs(partition int, batch []job.Submission) ([]any, error) {
	args := make([]any, 0, 4+5*len(batch))
	args = append(args, q.opts.PriorityBase, q.clock.notAfter(partition, submitFresh), ms(q.opts.KeepKeys), q.shares())
	var kind any
	var like likeness // of the previous job
	for i := range batch {
		s := &batch[i]
		l := likeness{s.Tier, s.QueueName(), q.delay(s), s.MaxRetries, s.Quota, ownerOf(s.Owner, s.Options), s.MaxRunMs,
			s.Unique, s.UniqueOn, s.MaxWait, s.Line, s.ExpiresMs, callbackOption(s.ID, 1, s.Options)}
		if kind == nil || l != like {
			plan, ok := q.plans.Plan(s.Tier)
			if !ok {
				return nil, fmt.Errorf("submit %s: %w: %s", s.ID, job.ErrUnknownTier, s.Tier)
			}
			kind, like = q.kind(s, plan, &l), l
		}
		args = append(args, string(s.ID), kind, descriptor(s.Type, s.TraceID, s.Options), s.Payload, once(s.Idempotency))
	}
	return args, nil
}

// likeness has the fields that determine a submission's submit_class.
type likeness struct {
	tier       job.Tier
	queue      string
	delay      time.Duration
	maxRetries int
	quota      int
	owner      string
	maxRunMs   int64
	unique     string
	on         job.UniqueOn
	maxWait    time.Duration
	line       string
	expires    int64
	callback   string
}

// delay returns how long from now the job is due, 0 for at once. RunAt is compared with this process' reading of
// Redis' time each time the job is sent, so that a repeat does not move the due time.
func (q *Queue) delay(s *job.Submission) time.Duration {
	if s.RunAt.IsZero() {
		return s.Delay
	}
	return max(s.RunAt.Sub(q.now()), 0)
}

// kind returns the submit_class text, "tier queue max_retries owner max_run_ms priority limit delay_ms quota
// queue_limit", with a line " line=<key>", with an expiry " exp=<ms>", with a callback " callback=<id>" and, with a
// unique key, " uniq=<option> on max_wait_ms held_limit". The script parses each text once per call.
func (q *Queue) kind(s *job.Submission, plan job.Plan, l *likeness) string {
	b := make([]byte, 0, 128)
	b = append(append(append(append(b, s.Tier...), ' '), s.QueueName()...), ' ')
	b = strconv.AppendInt(b, int64(s.MaxRetries), 10)
	b = append(append(append(b, ' '), ownerOf(s.Owner, s.Options)...), ' ')
	b = append(strconv.AppendInt(b, s.MaxRunMs, 10), ' ')
	b = strconv.AppendInt(b, int64(plan.Priority), 10)
	b = append(append(b, ' '), q.limit(plan, l.delay > 0)...)
	b = strconv.AppendInt(append(b, ' '), max(l.delay.Milliseconds(), 0), 10)
	b = append(append(b, ' '), q.quota(s)...)
	b = append(append(b, ' '), q.queueLimit(s.QueueName())...)
	if s.Line != "" {
		b = append(append(b, " line="...), s.Line...)
	}
	b = append(append(b, expiryOption(s.Options)...), l.callback...)
	if s.Unique != "" {
		b = append(append(append(b, " uniq="...), s.Unique...), ' ')
		b = append(append(b, s.UniqueOn...), ' ')
		b = strconv.AppendInt(b, max(s.MaxWait.Milliseconds(), 0), 10)
		b = append(append(b, ' '), q.limit(plan, true)...)
	}
	return string(b)
}

// queueLimit returns the number of fresh (or delayed) jobs of a queue at which one partition refuses the next job; "-"
// = any number. A queue that this process has not read yet has the limit of a queue that declares none.
func (q *Queue) queueLimit(name string) string {
	if name == job.MainQueue {
		return "-"
	}
	declared, _ := q.opts.Queues.Find(name)
	return strconv.Itoa(max(declared.LimitOf(q.opts.Capacity)/q.opts.Partitions, 1))
}

// once returns an Idempotency-Key and the hash of the request's body; "" = none. The key is itself a hash, so it
// contains no space.
func once(i job.Idempotency) string {
	if i.Key == "" {
		return ""
	}
	return i.Key + " " + i.Body
}

// limit returns the number of fresh (or delayed) jobs at which one partition refuses the tier: the tier's share.
func (q *Queue) limit(plan job.Plan, delayed bool) string {
	if delayed {
		return strconv.Itoa(q.share(plan, q.opts.ScheduledLimit))
	}
	return strconv.Itoa(q.share(plan, q.opts.Capacity))
}

// noLimit is the largest integer that Lua's numbers distinguish from the next one.
const noLimit = "9007199254740991"

// share returns a tier's share of one partition's part of a limit, at least 1.
func (s *shared) share(plan job.Plan, limit int) int {
	return max(limit*plan.Share/100/s.opts.Partitions, 1)
}

// shares returns the script's argument with what each tier may fill, the smallest share first: of the fresh jobs,
// of the jobs scheduled at submit and their bytes, and of all living jobs and their bytes. Jobs that a tier has
// beyond its share (jobs that came due or were requeued) do not count against the other tiers.
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

// byShare returns the plans, the smallest share first.
func (s *shared) byShare() []job.Plan {
	plans := s.plans.All()
	slices.SortStableFunc(plans, func(a, b job.Plan) int { return cmp.Compare(a.Share, b.Share) })
	return plans
}

// quota returns the number of living jobs of an owner at which one partition refuses the next job; "-" = any
// number.
func (q *Queue) quota(s *job.Submission) string {
	if s.Quota <= 0 {
		return "-"
	}
	return strconv.Itoa(q.part(s.Quota))
}

// part returns one partition's part of an owner's quota, rounded up.
func (s *shared) part(quota int) int { return (quota-1)/s.opts.Partitions + 1 }

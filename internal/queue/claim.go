package queue

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Claim takes up to r.Max of the best ready jobs that a partition has in the queues of this process, or in those of
// r.Elsewhere, and starts their clocks. It finds no job that is paused. If the answer is lost, a repeat with the
// same number gets the same leases. A number lower than the last claim's gets no leases.
func (q *Queue) Claim(ctx context.Context, partition int, r job.ClaimRequest) (job.ClaimReply, error) {
	script, nonce, number := q.claim, q.opts.Nonce, strconv.FormatInt(r.Number, 10)
	from, low, delivery, notAfter, order := q.own(), math.Inf(-1), "-", "0", "oldest"
	lease := func(p job.Plan) time.Duration { return p.HeartbeatTimeout }
	if e := r.Elsewhere; e != nil {
		script = script.with(partition, "claims", claimsSuffix(e.Worker+"~"+e.ID))
		nonce, number, from, low = e.Worker, "~"+e.ID, e.Queues, e.Low
		delivery = strconv.Itoa(e.Repeat) + "-" + e.Delivery
		notAfter = q.clock.notAfter(partition, claimFresh)
		if lease = job.Plan.Lease; e.Lease > 0 {
			lease = func(job.Plan) time.Duration { return e.Lease }
		}
		if e.ByName {
			order = "named"
		}
	}
	from = q.unpaused(from)
	if order == "oldest" && len(from) > 1 && q.plans.HasLines() { // a claim that meets a line goes by name
		n := int(q.turn.Add(1)) % len(from)
		from = append(from[n:len(from):len(from)], from[:n]...)
	}
	plans := q.plans.All()
	limited, common := q.limited(r.Room)
	args := make([]any, 0, 13+3*(len(plans)+1))
	args = append(args, nonce, number, min(r.Max, job.MaxBatch), scoreText(r.Bound), job.MaxBatchBytes,
		strings.Join(from, " "), q.band(), scoreText(low), delivery, notAfter,
		order, limited, common)
	for _, p := range plans {
		args = append(args, string(p.Tier), ms(lease(p)), ms(p.MaxProcessingTime))
	}
	// A job whose plan this process has not read yet gets the times of the first default plan, the most patient one.
	other := job.DefaultPlans()[0]
	args = append(args, "*", ms(lease(other)), ms(other.MaxProcessingTime))

	reply := job.ClaimReply{Next: math.Inf(1)}
	answer, err := q.call(ctx, q.redis.Worker, script, partition, args)
	if err != nil {
		return reply, err
	}
	if list, ok := answer.([]any); ok && len(list) == 1 && list[0] == string(job.Late) {
		q.reread(ctx)
		return reply, fmt.Errorf("claim: %w: it came too late", job.ErrUnavailable)
	}
	return reply, q.readClaim(answer, &reply)
}

// own returns the queues whose jobs the pool of this process runs: those that it serves, without the queues that push.
func (q *Queue) own() []string {
	return slices.DeleteFunc(slices.Clone(q.opts.Serves), func(name string) bool {
		of, _ := q.opts.Queues.Find(name)
		return of.Push.On()
	})
}

// unpaused returns those of some queues whose jobs may be claimed.
func (q *Queue) unpaused(names []string) []string {
	if _, all := q.opts.Pauses.Find(job.PauseAll); all {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		_, paused := q.opts.Pauses.Find(job.PauseQueue(name))
		return paused
	})
}

// limited returns the claim script's arguments limited and common: the bands of paused tiers and of tiers with slots of
// their own. A tier's band has its priority as its number. Where tiers overlap there are no bands.
func (q *Queue) limited(room *job.ClaimRoom) (bands, common string) {
	if !q.Strict() {
		return "", "-"
	}
	var texts []string
	paused := map[int]bool{}
	for _, p := range q.opts.Pauses.All().List {
		if tier, is := p.Tier(); is {
			if plan, known := q.plans.Plan(tier); known && !paused[plan.Priority] {
				paused[plan.Priority] = true
				texts = append(texts, strconv.Itoa(plan.Priority)+":-")
			}
		}
	}
	if room == nil {
		return strings.Join(texts, " "), "-"
	}
	for _, own := range room.Own {
		if !paused[own.Priority] {
			texts = append(texts, strconv.Itoa(own.Priority)+":"+strconv.Itoa(own.Slots))
		}
	}
	return strings.Join(texts, " "), strconv.Itoa(room.Common)
}

// Strict says whether tiers do not overlap, so that no job of a tier goes before one of a better tier.
func (q *Queue) Strict() bool { return q.band() > 0 }

// band returns the step between the scores of two tiers, or 0 if tiers may overlap.
func (q *Queue) band() int64 {
	if q.opts.PriorityBase < strictBase {
		return 0
	}
	return q.opts.PriorityBase
}

// readClaim reads the claim script's answer: the score of the best job left, the different leases, then three lists
// with an entry per job (the number of its lease, its id, its record), the checkpoints, whether jobs were passed
// over, the tiers of the jobs that the claim ended as EXPIRED, the jobs that have crashed, and Redis' time.
func (q *Queue) readClaim(answer any, reply *job.ClaimReply) (err error) {
	list, ok := answer.([]any)
	if ok && len(list) == 1 && list[0] == string(job.Empty) {
		return nil
	}
	if !ok || len(list) != 10 {
		return fmt.Errorf("claim: reply is a %T of %d", answer, len(list))
	}
	if next, _ := list[0].(string); next != "" {
		if reply.Next, err = strconv.ParseFloat(next, 64); err != nil {
			return fmt.Errorf("claim: next: %w", err)
		}
	}
	reply.PassedOver = list[6] == "1"
	now, _ := list[9].(string)
	reply.Now = msTime(now)
	tiers, err := textList(list[7])
	if err != nil {
		return fmt.Errorf("claim: expired: %w", err)
	}
	reply.Expired = len(tiers)
	for _, tier := range tiers {
		q.opts.Expired(job.Tier(tier))
	}
	var columns [5][]string
	for i := range columns {
		if columns[i], err = textList(list[i+1]); err != nil {
			return fmt.Errorf("claim: list %d: %w", i, err)
		}
	}
	leases, which, ids, records, saved := columns[0], columns[1], columns[2], columns[3], columns[4]
	crashed, err := textList(list[8])
	if err != nil {
		return fmt.Errorf("claim: crashed: %w", err)
	}
	if len(which) != len(ids) || len(records) != len(ids) || len(saved)%2 != 0 || len(crashed)%2 != 0 {
		return fmt.Errorf("claim: %d jobs, %d leases, %d records, %d checkpoints, %d crashed", len(ids), len(which),
			len(records), len(saved), len(crashed))
	}
	alike := make([]job.Lease, len(leases)) // what the jobs with one lease have in common
	for i, text := range leases {
		l := &alike[i]
		l.Status = job.Processing
		words, err := readLease(text, &l.Job)
		if err != nil {
			return fmt.Errorf("claim: %w", err)
		}
		l.Token, l.For = words.token, words.length
		l.CancelRequested = false // the next heartbeat tells
		if l.FirstTriedAt.Equal(l.StartedAt) {
			l.RunAt = words.due
		}
	}
	reply.Leases = make([]job.Lease, 0, len(ids))
	for i, id := range ids {
		n := number(which[i]) - 1
		if n < 0 || n >= len(alike) {
			return fmt.Errorf("claim: lease %q of %d", which[i], len(alike))
		}
		l := alike[n]
		l.ID = job.ID(id)
		if err := readLeased(records[i], &l.Job); err != nil {
			q.opts.Log.Error("a claimed job cannot be read; the watches will take it back", "job_id", id, "err", err)
			continue
		}
		reply.Leases = append(reply.Leases, l)
	}
	ofLeases(reply.Leases, saved, func(l *job.Lease, text string) { l.Checkpoint = payload(text) })
	ofLeases(reply.Leases, crashed, func(l *job.Lease, text string) { l.Crashes = number(text) })
	return nil
}

// ofLeases gives leases what a list says of some of them: an id and a text in turn.
func ofLeases(leases []job.Lease, list []string, set func(l *job.Lease, text string)) {
	for i := 0; i < len(list); i += 2 {
		for k := range leases {
			if leases[k].ID == job.ID(list[i]) {
				set(&leases[k], list[i+1])
			}
		}
	}
}

// readLeased fills in what a record says beyond the job's lease.
func readLeased(record string, j *job.Job) error {
	_, rest, _ := strings.Cut(record, "\n")
	head, body, ok := strings.Cut(rest, "\n")
	if !ok {
		return fmt.Errorf("record of %s has no head", j.ID)
	}
	j.Payload = payload(body)
	return readHead(head, j)
}

// textList turns a list of a script's reply into texts.
func textList(reply any) ([]string, error) {
	list, ok := reply.([]any)
	if !ok {
		return nil, fmt.Errorf("it is a %T", reply)
	}
	texts := make([]string, len(list))
	for i, item := range list {
		if texts[i], ok = item.(string); !ok {
			return nil, fmt.Errorf("text %d is a %T", i, item)
		}
	}
	return texts, nil
}

func scoreText(score float64) string {
	switch {
	case math.IsInf(score, 1):
		return "+inf"
	case math.IsInf(score, -1):
		return "-inf"
	}
	return strconv.FormatFloat(score, 'f', -1, 64)
}

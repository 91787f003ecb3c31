package queue

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tierq/tierq/internal/job"
)

// leaseFields is how many texts the claim script returns per lease.
const leaseFields = 5

// Claim takes up to r.Max of a partition's best ready jobs and starts their deadlines. After a lost reply the
// caller asks again with the same number and gets the same leases. A number lower than that of the last claim gets
// no leases.
func (q *Queue) Claim(ctx context.Context, partition int, r job.ClaimRequest) (job.ClaimReply, error) {
	plans := q.plans.All()
	args := make([]any, 0, 5+3*(len(plans)+1))
	args = append(args, q.opts.Nonce, strconv.FormatInt(r.Number, 10), min(r.Max, job.MaxBatch), scoreText(r.Bound),
		job.MaxBatchBytes)
	for _, p := range plans {
		args = append(args, string(p.Tier), ms(p.HeartbeatTimeout), ms(p.MaxProcessingTime))
	}
	// A job whose plan this process has not read yet gets the times of the first default plan, the most patient one.
	other := job.DefaultPlans()[0]
	args = append(args, "*", ms(other.HeartbeatTimeout), ms(other.MaxProcessingTime))

	reply := job.ClaimReply{Next: math.Inf(1)}
	texts, err := q.texts(ctx, q.redis.Worker, q.claim, partition, args)
	if err != nil {
		return reply, err
	}
	if len(texts) == 1 && texts[0] == string(job.Empty) {
		return reply, nil
	}
	if len(texts) == 0 || (len(texts)-1)%leaseFields != 0 {
		return reply, fmt.Errorf("claim: reply of %d texts", len(texts))
	}
	if texts[0] != "" {
		if reply.Next, err = strconv.ParseFloat(texts[0], 64); err != nil {
			return reply, fmt.Errorf("claim: next: %w", err)
		}
	}
	token := q.opts.Nonce + ":" + strconv.FormatInt(r.Number, 10)
	reply.Leases = make([]job.Lease, 0, (len(texts)-1)/leaseFields)
	for t := texts[1:]; len(t) > 0; t = t[leaseFields:] {
		l := job.Lease{Token: token, Job: job.Job{
			ID: job.ID(t[0]), Status: job.Processing, Payload: payload(t[2]), Checkpoint: payload(t[4]), Worker: q.opts.Nonce,
		}}
		err := readCounts(t[3], &l.Job)
		if err == nil {
			err = readHead(t[1], &l.Job)
		}
		if err != nil {
			q.opts.Log.Error("a claimed job cannot be read; the watches will take it back", "job_id", t[0], "err", err)
			continue
		}
		reply.Leases = append(reply.Leases, l)
	}
	return reply, nil
}

// readCounts fills in the attempt numbers that the claim script returns with a lease: "attempt retries first
// started" and, for a delayed job, when it was due.
func readCounts(text string, j *job.Job) error {
	f := strings.Split(text, " ")
	if len(f) != 4 && len(f) != 5 {
		return fmt.Errorf("counts of %s: %q", j.ID, text)
	}
	if len(f) == 5 {
		j.RunAt = msTime(f[4])
	}
	j.Attempt, j.RetryCount, j.FirstTriedAt, j.StartedAt = number(f[0]), number(f[1]), msTime(f[2]), msTime(f[3])
	return nil
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

package leasing

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Claim returns leases for a worker. If no job is there it waits for one, in the order of the claims that wait, until
// c.Wait is over, an operator asks the worker to claim nothing, or the room drains: then it returns none. A repeat with
// the same c.ID within 60 s gets those of the first answer's jobs that still run; one with a lower c.Repeat than the
// last gets none. The error is job.ErrBadTiers for tiers that do not follow each other, and a *job.RateError if the key
// holds as many leases as it may. When ctx ends, Claim returns its error, and the jobs that it took meanwhile are
// released.
func (r *Room) Claim(ctx context.Context, c job.WorkerClaim) ([]job.WorkerLease, error) {
	e := job.Elsewhere{
		Worker: holder(c.Key, c.Worker), ID: c.ID, Repeat: c.Repeat, Delivery: newDelivery(), Queues: c.Queues,
		ByName: c.ByName, Lease: c.Lease, Low: math.Inf(-1),
	}
	high := math.Inf(1)
	if len(c.Tiers) > 0 {
		var err error
		if e.Low, high, err = r.scores(c.Tiers); err != nil {
			return nil, err
		}
	}
	if r.Draining() {
		return nil, nil
	}
	w := r.waiters.enter(e.Worker, c.Queues)
	defer func() { r.pass(r.waiters.leave(w)) }()
	if r.Asks.Of(e.Worker) != job.WorkerRuns { // in the line, where Tell finds the claim if this changes
		return nil, nil
	}
	r.waiting(e.Worker, 1)
	defer r.waiting(e.Worker, -1)
	over := time.NewTimer(max(c.Wait, 0))
	defer over.Stop()
	for partition := 0; ; {
		leases, err := r.seated(partition, &e, &c, high)
		if err != nil || len(leases) > 0 || c.Wait <= 0 {
			return r.hand(ctx, &c, leases, err)
		}
		select {
		case <-w.woken:
			partition = r.waiters.awake(w).partition
		case <-over.C:
			return nil, nil
		case <-w.told:
			return nil, nil
		case <-r.draining:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// newDelivery returns a name that no other answer to the same claim has.
func newDelivery() string {
	name := make([]byte, 6)
	_, _ = rand.Read(name) // never fails, says crypto/rand
	return hex.EncodeToString(name)
}

// holder returns a worker's name in tokens. With the key in it, two keys that use the same names cannot get at each
// other's leases.
func holder(key, worker string) string {
	if key == "" {
		return worker
	}
	return key + "." + worker
}

// scores returns the scores of some tiers, whose priorities must follow each other.
func (r *Room) scores(tiers []job.Tier) (low, high float64, err error) {
	if !r.Strict {
		return 0, 0, fmt.Errorf("%w: this server's tiers overlap (TIERQ_PRIORITY_BASE)", job.ErrBadTiers)
	}
	first, last, asked := math.MaxInt, 0, 0
	for _, t := range tiers {
		p, known := r.Plans.Plan(t)
		if !known {
			return 0, 0, fmt.Errorf("%w: there is no tier %s", job.ErrBadTiers, t)
		}
		first, last = min(first, p.Priority), max(last, p.Priority)
	}
	for _, p := range r.Plans.All() {
		if p.Priority >= first && p.Priority <= last {
			if asked++; !slices.Contains(tiers, p.Tier) {
				return 0, 0, fmt.Errorf("%w: %s lies between them", job.ErrBadTiers, p.Tier)
			}
		}
	}
	return float64(int64(first) * r.PriorityBase), float64(int64(last+1)*r.PriorityBase - 1), nil
}

// take claims up to n jobs from one partition: from the one with the best job, of which the first to be asked is
// partition.
func (r *Room) take(partition int, e *job.Elsewhere, n int, high float64) ([]job.WorkerLease, error) {
	if r.Partitions == 1 {
		reply, err := r.ask(0, e, n, high)
		return reply.leases, err
	}
	replies, err := r.look(e)
	if err != nil {
		return nil, err
	}
	var found []job.WorkerLease
	order := make([]int, 0, r.Partitions)
	for p := range replies {
		found = append(found, replies[p].leases...) // a repeat: the jobs of the first answer
		if next := replies[p].Next; next <= high && !math.IsInf(next, 1) {
			order = append(order, p)
		}
	}
	score := func(p int) float64 {
		if r.Plans.HasLines() { // inside a tier the scores of lines in two partitions do not compare
			return r.tierEnd(replies[p].Next)
		}
		return replies[p].Next
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(score(a), score(b)), cmp.Compare(b2i(a != partition), b2i(b != partition)))
	})
	for _, p := range order {
		if len(found) > 0 {
			break
		}
		reply, err := r.ask(p, e, n, min(high, r.tierEnd(replies[p].Next)))
		if err != nil {
			return nil, err
		}
		found = reply.leases
	}
	return found, nil
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// tierEnd returns the last score of the tier that a score belongs to; where tiers overlap, the score itself.
func (r *Room) tierEnd(score float64) float64 {
	if !r.Strict {
		return score
	}
	step := float64(r.PriorityBase)
	return (math.Floor(score/step)+1)*step - 1
}

// lookBound is how long a claim waits for the partitions' heads: one that does not answer holds up no claim.
const lookBound = 2 * time.Second

// look asks all partitions for their best job, and for what a repeated claim has there.
func (r *Room) look(e *job.Elsewhere) ([]claimed, error) {
	replies, errs := make([]claimed, r.Partitions), make([]error, r.Partitions)
	var group sync.WaitGroup
	for p := range r.Partitions {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(r.io, lookBound)
			defer cancel()
			replies[p], errs[p] = r.claim(ctx, p, job.ClaimRequest{Max: 1, Bound: math.Inf(-1), Elsewhere: e})
		})
	}
	group.Wait()
	away := 0
	for p, err := range errs {
		if err != nil {
			away++
			replies[p].Next = math.Inf(1) // the others go on
		}
	}
	if away < r.Partitions {
		return replies, nil
	}
	return nil, errors.Join(errs...)
}

// ask claims up to n jobs of a partition. It goes on while a call only ended jobs whose time was over: such a call
// found nothing, so Redis remembers nothing of it.
func (r *Room) ask(partition int, e *job.Elsewhere, n int, high float64) (reply claimed, err error) {
	for err == nil {
		err = r.again(func(ctx context.Context) error {
			reply, err = r.claim(ctx, partition, job.ClaimRequest{Max: n, Bound: high, Elsewhere: e})
			return err
		})
		if len(reply.leases) > 0 || reply.Expired == 0 {
			break
		}
	}
	return reply, err
}

// claimed is the answer to one call, with the leases as their worker gets them, but not sealed yet.
type claimed struct {
	job.ClaimReply
	leases []job.WorkerLease
}

// claim makes one call, once few others are under way.
func (r *Room) claim(ctx context.Context, partition int, request job.ClaimRequest) (claimed, error) {
	select {
	case r.claims <- struct{}{}:
		defer func() { <-r.claims }()
	case <-ctx.Done():
		return claimed{}, fmt.Errorf("claim: %w: too many claims at once", job.ErrUnavailable)
	}
	sent := time.Now()
	reply, err := r.Queue.Claim(ctx, partition, request)
	return claimed{reply, r.timed(&reply, request.Elsewhere.Lease, sent)}, err
}

// timed returns the leases of a reply with their times. These count from when the call was sent, so that they pass here
// before they pass in Redis.
func (r *Room) timed(reply *job.ClaimReply, asked time.Duration, sent time.Time) []job.WorkerLease {
	leases := make([]job.WorkerLease, len(reply.Leases))
	for i := range leases {
		l := &leases[i]
		l.Lease = reply.Leases[i]
		plan := r.plan(l.Tier)
		l.For, l.MaxRun = cmp.Or(asked, plan.Lease()), l.Lease.MaxRun(plan)
		ran := max(reply.Now.Sub(l.StartedAt), 0) // a repeated claim finds an attempt that began before
		l.Until, l.Ends = sent.Add(l.For), sent.Add(l.MaxRun-ran)
	}
	return leases
}

// hand seals leases for their worker. A worker that has gone gets none: its jobs are released at once.
func (r *Room) hand(ctx context.Context, c *job.WorkerClaim, leases []job.WorkerLease, err error) (
	[]job.WorkerLease, error,
) {
	if err != nil {
		return nil, err
	}
	for i := range leases {
		l := &leases[i]
		if l.Sealed, err = r.seal(ctx, c.Key, l.For, &l.Lease); err != nil {
			break
		}
	}
	if err = cmp.Or(err, ctx.Err()); err != nil {
		r.GiveBack(leases)
		return nil, err
	}
	for i := range leases {
		r.Observe.Started(&leases[i].Lease, leases[i].Waited())
	}
	return leases, nil
}

// plan returns a tier's plan, as package worker does.
func (r *Room) plan(t job.Tier) job.Plan {
	if plan, ok := r.Plans.Plan(t); ok {
		return plan
	}
	return job.DefaultPlans()[0]
}

// GiveBack releases leases at no cost, because their worker never got them. It does not wait. A worker that has
// repeated its claim meanwhile keeps the jobs: its leases have other tokens.
func (r *Room) GiveBack(leases []job.WorkerLease) {
	for i := range leases {
		l := &leases[i]
		e := &ending{ref: l.Ref(), end: job.End{Verb: job.Releases}}
		if key, _, _ := strings.Cut(l.Token, "."); r.Most(key) > 0 { // see holder
			e.done = make(chan struct{})
			r.wg.Go(func() { r.leaveSeat(key, e) })
		}
		r.lanes[l.ID.Partition()][job.Releases].add(e)
	}
}

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/tierq/tierq/internal/admission"
	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/leasing"
	"github.com/tierq/tierq/internal/ledger"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/telemetry"
)

// flows accepts and reads flows for the API. A flow is in SQL only; Redis is asked for its capacity, and about leases.
type flows struct {
	*archive.Archive // the reads
	ledger           *ledger.Ledger
	admission        *admission.Admission
	view             *queue.View
	leases           *leasing.Room
	metrics          *telemetry.Metrics
}

// counts counts the answer to each job of a flow as that to a submit.
func (f flows) counts(ctx context.Context, of *job.Flow, replayed bool, err error) {
	if ctx.Err() != nil {
		return
	}
	how := telemetry.SubmitOf(job.Accepted{Replayed: replayed}, err)
	for i := range of.Jobs {
		f.metrics.Submitted(of.Jobs[i].Tier, how)
	}
}

// SubmitFlow accepts a flow as a whole, with the limits of a submit: all its jobs count as if they came to the queue
// now. Concurrent requests may exceed the limits.
func (f flows) SubmitFlow(ctx context.Context, of *job.Flow, quota int, contents []string) (
	first *job.Flow, err error,
) {
	defer func() { f.counts(ctx, of, first != nil, err) }()
	if err := f.admission.PrepareFlow(ctx, of); err != nil {
		return nil, err
	}
	if _, err := job.GraphOf(of.Jobs); err != nil {
		return nil, err
	}
	if err := f.room(ctx, of, quota); err != nil {
		return nil, err
	}
	return f.ledger.SubmitFlow(ctx, of, contents)
}

// room returns the refusal of a flow for which there is no capacity.
func (f flows) room(ctx context.Context, of *job.Flow, quota int) error {
	if quota > 0 {
		waiting, err := f.CountWaiting(ctx, of.Owner, quota)
		if err != nil {
			return err
		}
		if quota -= waiting; quota < len(of.Jobs) {
			j := &of.Jobs[0]
			return f.admission.Refused(&job.Submission{Tier: j.Tier, Owner: j.Owner, Options: j.Options, Quota: quota},
				job.ErrQuota)
		}
	}
	jobs := make([]job.Submission, len(of.Jobs))
	for i := range of.Jobs {
		j := &of.Jobs[i]
		jobs[i] = job.Submission{ID: j.ID, Tier: j.Tier, Owner: j.Owner, Options: j.Options, Quota: quota}
	}
	return roomFor(ctx, f.view, f.admission, jobs)
}

// roomFor returns the refusal of jobs that are accepted as a whole and for which there is no capacity. They have one
// owner and one quota.
func roomFor(ctx context.Context, view *queue.View, door *admission.Admission, jobs []job.Submission) error {
	if len(jobs) > 0 && jobs[0].Quota > 0 && len(jobs) > jobs[0].Quota {
		return door.Refused(&jobs[0], job.ErrQuota)
	}
	queues := make([]inQueue, len(jobs))
	for i := range jobs {
		queues[i] = inQueue{jobs[i].ID, jobs[i].QueueName()}
	}
	if at, err := queueRoom(ctx, view, queues); err != nil {
		return door.Refused(&jobs[at], err)
	}
	type place struct {
		tier      job.Tier
		partition int
	}
	at, in := map[place][]*job.Submission{}, map[int][]*job.Submission{}
	for i := range jobs {
		s := &jobs[i]
		p := place{s.Tier, s.ID.Partition()}
		at[p], in[p.partition] = append(at[p], s), append(in[p.partition], s)
	}
	for _, some := range in { // first, as in a submit: the owner's jobs of all tiers count together
		s := some[0]
		if err := view.QuotaRoom(ctx, s.ID, cmp.Or(s.Owner, s.From), s.Quota, len(some)); err != nil {
			return door.Refused(s, err)
		}
	}
	for p, some := range at {
		if err := view.RoomFor(ctx, some[0].ID, p.tier, len(some)); err != nil {
			return door.Refused(some[0], err)
		}
	}
	return nil
}

// AddToFlow adds jobs for the job whose lease is shown. A repeat counts its jobs once more.
func (f flows) AddToFlow(ctx context.Context, key, lease string, of *job.Flow, contents []string) (err error) {
	defer func() { f.counts(ctx, of, false, err) }()
	by, err := f.leases.Holder(ctx, key, lease)
	if err != nil {
		return err
	}
	j, err := f.FlowJob(ctx, by)
	if err != nil && !errors.Is(err, job.ErrNotFound) {
		return fmt.Errorf("add to flow: %w", err)
	}
	if err != nil || j.Flow != of.ID {
		return fmt.Errorf("add to flow: %w", job.ErrFlowNotFound)
	}
	for i := range of.Jobs {
		if !job.IsBelow(of.Jobs[i].Name, j.Name) {
			return &job.FlowError{Job: of.Jobs[i].Name, Reason: "is not named below the job that adds it: " + j.Name + "/..."}
		}
	}
	if err := f.admission.PrepareFlow(ctx, of); err != nil {
		return err
	}
	return f.ledger.AddToFlow(ctx, of.ID, by, of.Jobs, contents)
}

// CancelFlow cancels all jobs of a flow.
func (f flows) CancelFlow(ctx context.Context, id job.ID, reason string) error {
	return f.ledger.CancelFlow(ctx, id, reason)
}

// FlowInputs reads what the job of a lease waited for.
func (f flows) FlowInputs(ctx context.Context, key, lease, name string) ([]job.FlowInput, error) {
	id, err := f.leases.Holder(ctx, key, lease)
	if err != nil {
		return nil, err
	}
	return f.Archive.FlowInputs(ctx, id, name)
}

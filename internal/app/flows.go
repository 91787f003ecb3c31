package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/tierq/tierq/internal/admission"
	"github.com/tierq/tierq/internal/archive"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/leasing"
	"github.com/tierq/tierq/internal/ledger"
	"github.com/tierq/tierq/internal/telemetry"
)

// flows accepts and reads flows for the API. A flow is in SQL only; Redis has the places of its jobs, and the leases.
type flows struct {
	*archive.Archive // the reads
	ledger           *ledger.Ledger
	admission        *admission.Admission
	places           *admission.Reserver
	leases           *leasing.Room
	metrics          *telemetry.Metrics
	quota            func(ctx context.Context, owner string) (int, error) // how many living jobs an API key may have
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

// SubmitFlow accepts a flow as a whole, with the limits of a submit: all its jobs have their places before SQL gets
// them.
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
	kept, err := f.places.Reserve(ctx, f.admission.PlacesOf(of, of.Owner, of.Jobs[0].From, quota))
	if err != nil {
		return nil, err
	}
	first, err = f.ledger.SubmitFlow(ctx, of, contents)
	if first != nil || certain(err) {
		f.places.Free(ctx, kept)
	}
	return first, err
}

// certain says whether an error means that a transaction has changed nothing.
func certain(err error) bool {
	return err != nil && !errors.Is(err, job.ErrAmbiguous) && !errors.Is(err, context.Canceled) &&
		!errors.Is(err, context.DeadlineExceeded)
}

// AddToFlow adds jobs for the job whose lease is shown, with the limits of a submit by the flow's owner.
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
	quota, err := f.quota(ctx, j.Owner)
	if err != nil {
		return fmt.Errorf("add to flow: %w", err)
	}
	kept, err := f.places.Reserve(ctx, f.admission.PlacesOf(of, j.Owner, j.From, quota))
	if err != nil {
		return err
	}
	if err = f.ledger.AddToFlow(ctx, of.ID, by, of.Jobs, contents); certain(err) {
		f.places.Free(ctx, kept)
	}
	return err
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

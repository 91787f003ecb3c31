package admission

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/failpoint"
	"github.com/tierq/tierq/internal/job"
)

// Places keeps places in Redis for jobs that SQL is about to have. A call is of one partition.
type Places interface {
	// Reserve answers each job with OK, DUPLICATE, QUOTA, FULL, LATE or EMPTY. Unless all are OK or DUPLICATE, it has
	// reserved nothing. A call may be sent twice.
	Reserve(ctx context.Context, partition int, jobs []job.Reservation, forced bool) ([]job.SubmitReply, error)
	// Unreserve gives back the places that are not needed.
	Unreserve(ctx context.Context, partition int, looked []job.Reserved) error
}

// Reserver keeps places. It is safe for concurrent use.
type Reserver struct {
	Redis Places
	Log   *slog.Logger
	// Refused returns the refusal of a job, with the time after which to try again; nil = just the error.
	Refused func(of *job.Submission, err error) error
}

// The longest times for places: of one call, and of giving places back.
const (
	reserveTimeout = 600 * time.Millisecond
	freeTimeout    = time.Second
)

// Reserve keeps places for jobs that a transaction is about to write, for all of them or for none, with the limits of a
// submit. It returns the jobs that have a place since this call, for Free. The errors are those of Submit:
// job.ErrQuota, job.ErrQueueFull and job.ErrUnhealthy in a *Refusal. The reconciler gives back the places of jobs that
// SQL does not have after 15 s, so a caller that dies before it calls Free leaves no place behind.
func (r *Reserver) Reserve(ctx context.Context, jobs []job.Reservation) (kept []job.ID, err error) {
	of := map[int][]job.Reservation{}
	for i := range jobs {
		p := jobs[i].ID.Partition()
		of[p] = append(of[p], jobs[i])
	}
	for _, p := range slices.Sorted(maps.Keys(of)) { // all callers alike, so that two of them do not keep each other out
		for some := range slices.Chunk(of[p], job.MaxBatch) {
			got, err := r.reserveIn(ctx, p, some)
			kept = append(kept, got...)
			failpoint.Hit("reserve.after", got...)
			if err != nil {
				r.Free(ctx, kept)
				return nil, err
			}
		}
	}
	return kept, nil
}

// reserveIn reserves in one partition.
func (r *Reserver) reserveIn(ctx context.Context, partition int, jobs []job.Reservation) (kept []job.ID, err error) {
	replies, err := r.ask(ctx, partition, jobs)
	if err != nil {
		return nil, err
	}
	for i, reply := range replies {
		switch reply.Word {
		case job.OK:
			kept = append(kept, jobs[i].ID)
		case job.Duplicate:
		case job.Quota, job.Full:
			j := &jobs[i]
			s := job.Submission{Tier: j.Tier, Owner: j.Owner, Options: j.Options, Quota: j.Quota}
			why := job.ErrQuota
			if reply.Word == job.Full {
				why = noRoom(reply)
			}
			if r.Refused == nil {
				return nil, why
			}
			return nil, r.Refused(&s, why)
		default:
			return nil, refuse(job.ErrUnhealthy, 0)
		}
	}
	return kept, nil
}

// ask sends the call until it is answered, or for patience.
func (r *Reserver) ask(ctx context.Context, partition int, jobs []job.Reservation) ([]job.SubmitReply, error) {
	for began := time.Now(); ; {
		call, cancel := context.WithTimeout(ctx, reserveTimeout)
		replies, err := r.Redis.Reserve(call, partition, jobs, false)
		cancel()
		late := slices.ContainsFunc(replies, func(r job.SubmitReply) bool { return r.Word == job.Late })
		switch {
		case err == nil && !late:
			return replies, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil && !errors.Is(err, job.ErrUnavailable) && !errors.Is(err, job.ErrAmbiguous):
			return nil, err
		case time.Since(began) > patience:
			return nil, refuse(job.ErrUnhealthy, 0)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// Free gives back the places of jobs that SQL does not have. If Redis does not answer, the places are given back later.
func (r *Reserver) Free(ctx context.Context, ids []job.ID) {
	of := map[int][]job.Reserved{}
	for _, id := range ids {
		of[id.Partition()] = append(of[id.Partition()], job.Reserved{ID: id})
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), freeTimeout)
	defer cancel()
	for p, all := range of {
		for some := range slices.Chunk(all, job.MaxBatch) {
			if err := r.Redis.Unreserve(ctx, p, some); err != nil {
				r.Log.Warn("places could not be given back now", "partition", p, "places", len(all), "err", err)
				break
			}
		}
	}
}

package leasing

import (
	"context"

	"github.com/tierq/tierq/internal/job"
)

// Holder returns the job of a sealed lease of a key, if Redis says that the lease is held now. The check extends the
// lease, as a heartbeat does. The error is job.ErrLeaseLost if the lease is not held, job.ErrBadLease if the text is no
// lease.
func (r *Room) Holder(ctx context.Context, key, sealed string) (job.ID, error) {
	held, err := r.open(ctx, key, sealed)
	if err != nil {
		return "", err
	}
	answers, err := r.Heartbeat(ctx, key, []job.WorkerBeat{{Sealed: sealed}})
	if err != nil {
		return "", err
	}
	if answers[0].Word == job.Lost {
		return "", job.ErrLeaseLost
	}
	return held.ID, nil
}

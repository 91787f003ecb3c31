package httpapi

import (
	"context"

	"github.com/tierq/tierq/internal/job"
)

// leases fakes the room that serves workers, and records its calls.
type leases struct {
	jobs     []job.WorkerLease // of each claim
	pulses   func(beats []job.WorkerBeat) []job.WorkerPulse
	end      func(r job.WorkerReport) job.WorkerEnd
	err      error
	draining bool

	claims   []job.WorkerClaim
	gaveBack []job.Lease
	beats    []job.WorkerBeat
	reports  []job.WorkerReport
	keys     []string
}

func (l *leases) Claim(ctx context.Context, c job.WorkerClaim) ([]job.WorkerLease, error) {
	l.claims = append(l.claims, c)
	return l.jobs, l.err
}

func (l *leases) GiveBack(leases []job.Lease) { l.gaveBack = append(l.gaveBack, leases...) }

func (l *leases) Heartbeat(_ context.Context, key string, beats []job.WorkerBeat) ([]job.WorkerPulse, error) {
	l.beats, l.keys = append(l.beats, beats...), append(l.keys, key)
	if l.err != nil {
		return nil, l.err
	}
	return l.pulses(beats), nil
}

func (l *leases) End(_ context.Context, key string, reports []job.WorkerReport) []job.WorkerEnd {
	l.reports, l.keys = append(l.reports, reports...), append(l.keys, key)
	ends := make([]job.WorkerEnd, len(reports))
	for i, r := range reports {
		if ends[i].Err = l.err; l.err == nil {
			ends[i] = l.end(r)
		}
	}
	return ends
}

func (l *leases) Draining() bool { return l.draining }

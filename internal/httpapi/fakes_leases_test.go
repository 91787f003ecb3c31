package httpapi

import (
	"cmp"
	"context"

	"github.com/tierq/tierq/internal/job"
)

// leases fakes the room that serves workers, and records its calls.
type leases struct {
	jobs     []job.WorkerLease // of each claim
	pulses   func(beats []job.WorkerBeat) []job.WorkerPulse
	end      func(r job.WorkerReport) job.WorkerEnd
	err      error
	refused  error // of each claim
	draining bool

	claims   []job.WorkerClaim
	gaveBack []job.WorkerLease
	beats    []job.WorkerBeat
	reports  []job.WorkerReport
	logs     []job.WorkerLog
	logged   []job.WorkerLogged // the answers to the next call
	keys     []string
	sights   []job.WorkerSight
	asked    job.WorkerState // of each worker; "" = it runs
}

func (l *leases) Claim(ctx context.Context, c job.WorkerClaim) ([]job.WorkerLease, error) {
	l.claims = append(l.claims, c)
	return l.jobs, cmp.Or(l.refused, l.err)
}

func (l *leases) GiveBack(leases []job.WorkerLease) { l.gaveBack = append(l.gaveBack, leases...) }

func (l *leases) Heartbeat(_ context.Context, key string, beats []job.WorkerBeat) ([]job.WorkerPulse, error) {
	l.beats, l.keys = append(l.beats, beats...), append(l.keys, key)
	if l.err != nil {
		return nil, l.err
	}
	return l.pulses(beats), nil
}

func (l *leases) AddLines(_ context.Context, key string, logs []job.WorkerLog) ([]job.WorkerLogged, error) {
	l.logs, l.keys = append(l.logs, logs...), append(l.keys, key)
	return l.logged, l.err
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

func (l *leases) See(s job.WorkerSight) { l.sights = append(l.sights, s) }

func (l *leases) Asked(string, string) job.WorkerState { return cmp.Or(l.asked, job.WorkerRuns) }

// workerBook fakes the list of workers, and records what is asked of them.
type workerBook struct {
	all   []job.WorkerInfo
	err   error
	asked []string
}

func (b *workerBook) Workers() []job.WorkerInfo { return b.all }

func (b *workerBook) AskWorker(_ context.Context, name string, state job.WorkerState) error {
	b.asked = append(b.asked, name+" "+string(state))
	return b.err
}

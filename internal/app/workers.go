package app

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
)

// workers lists the workers of all processes, and says what operators ask of them.
type workers struct {
	*viewPoller
	queue *queue.Queue
	asks  *job.AskBook
}

// Workers returns the workers as operators see them.
func (w workers) Workers() []job.WorkerInfo { return shownWorkers(w.last().workers, w.asks) }

func (w workers) AskWorker(ctx context.Context, name string, state job.WorkerState) error {
	return w.queue.AskWorker(ctx, name, state)
}

// shownWorkers completes what processes of earlier versions leave out, and leaves out what is for processes only.
func shownWorkers(all []job.WorkerInfo, asks *job.AskBook) []job.WorkerInfo {
	shown := append([]job.WorkerInfo{}, all...)
	for i := range shown {
		w := &shown[i]
		w.Settings, w.BeatEveryMs, w.Pauses = nil, 0, 0
		w.Kind = cmp.Or(w.Kind, job.ServerWorker)
		if asked := asks.Of(w.Name); asked != job.WorkerRuns || w.State == "" {
			w.State = asked
		}
		if w.Kind == job.ServerWorker {
			w.Language = "go"
		}
		if len(w.Queues) == 0 {
			w.Queues = []string{job.MainQueue}
		}
	}
	return shown
}

// tiersOf names the tiers of a priority, with "+" between them.
func tiersOf(plans []job.Plan, priority int) string {
	var names []string
	for _, p := range plans {
		if p.Priority == priority {
			names = append(names, string(p.Tier))
		}
	}
	return strings.Join(names, "+")
}

// ownFree returns the free own slots by the names of their tiers.
func ownFree(plans []job.Plan, free []job.OwnRoom) map[string]int {
	named := map[string]int{}
	for _, o := range free {
		named[tiersOf(plans, o.Priority)] = o.Slots
	}
	return named
}

// pools returns the workers that are processes of tierq.
func pools(all []job.WorkerInfo) []job.WorkerInfo {
	return slices.DeleteFunc(slices.Clone(all), func(w job.WorkerInfo) bool { return w.Elsewhere() })
}

// seen returns the workers elsewhere whose records are due.
func (v *server) seen() []job.WorkerInfo {
	if !v.config.Roles.API {
		return nil
	}
	return v.leasing.Seen()
}

// heard acts on what operators ask and pause, when either has changed.
func (v *server) heard() {
	v.asked()
	if v.config.Roles.Worker {
		v.pool.Wake() // jobs may be ready that were paused
	}
}

// asked does what operators ask of this process, and answers the claims that wait here of workers that are to claim
// nothing.
func (v *server) asked() {
	if v.leasing != nil {
		v.leasing.Tell()
	}
	state := v.asks.Of(v.nonce)
	if v.config.Roles.Worker {
		quiet := state != job.WorkerRuns || v.signalled.Load()
		v.pool.Quiet(quiet)
		v.push.Quiet(quiet)
	}
	if state == job.WorkerTerminates {
		v.told.Do(func() { close(v.terminated) })
	}
}

// quiet makes the pool of this process claim nothing any more, until the process ends.
func (v *server) quiet() {
	v.signalled.Store(true)
	v.asked()
}

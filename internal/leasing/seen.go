package leasing

import (
	"sync"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// The bounds of what a process keeps of the workers that call it.
const (
	registerEvery = 3 * time.Second  // at least, between two records of one worker
	forgetAfter   = 30 * time.Second // of silence
	mostSights    = 10_000           // workers
)

// sights are the workers that this process heard of lately.
type sights struct {
	mu  sync.Mutex
	all map[string]*sight // by the worker's name in tokens
}

type sight struct {
	job.WorkerInfo
	at         time.Time // when it last called
	waits      int       // claims of it that wait now
	registered time.Time
	fresh      bool // something was heard that is not recorded yet
}

// See notes that a worker has called.
func (r *Room) See(s job.WorkerSight) {
	now := time.Now()
	r.sights.mu.Lock()
	defer r.sights.mu.Unlock()
	one := r.sight(holder(s.Key, s.Worker), now)
	if one == nil {
		return
	}
	one.at, one.fresh = now, true
	if s.Kind != "" {
		one.Kind = s.Kind
	}
	if s.Info != nil {
		one.Host, one.PID, one.Version, one.Language = s.Info.Host, s.Info.PID, s.Info.Version, s.Info.Language
		one.Slots = s.Info.Slots
	}
	if len(s.Queues) > 0 {
		one.Queues = s.Queues
	}
	if s.Running >= 0 {
		one.Running = s.Running
	}
	if s.BeatEvery > 0 {
		one.BeatEveryMs = s.BeatEvery.Milliseconds()
	}
}

// sight returns what is known of a worker; nil if too many are known. r.sights.mu is held.
func (r *Room) sight(name string, now time.Time) *sight {
	one := r.sights.all[name]
	if one == nil && len(r.sights.all) < mostSights {
		one = &sight{WorkerInfo: job.WorkerInfo{
			Name: name, Kind: job.HTTPWorker, State: job.WorkerRuns, StartedAt: now.UTC(), Queues: []string{},
		}}
		r.sights.all[name] = one
	}
	return one
}

// waiting notes that a claim of a worker begins to wait, or ends.
func (r *Room) waiting(name string, by int) {
	r.sights.mu.Lock()
	defer r.sights.mu.Unlock()
	if one := r.sights.all[name]; one != nil {
		one.waits = max(one.waits+by, 0) // a claim that began while too many workers were known was not counted
		one.at = time.Now()
	}
}

// Seen returns the workers whose records are due, and forgets those that are silent.
func (r *Room) Seen() (due []job.WorkerInfo) {
	now := time.Now()
	r.sights.mu.Lock()
	defer r.sights.mu.Unlock()
	for name, one := range r.sights.all {
		if one.waits > 0 {
			one.at, one.fresh = now, true
		}
		switch silent := now.Sub(one.at); {
		case silent > forgetAfter+2*time.Duration(one.BeatEveryMs)*time.Millisecond:
			delete(r.sights.all, name)
		case one.fresh && now.Sub(one.registered) >= registerEvery:
			one.registered, one.fresh = now, false
			one.Silent = silent
			due = append(due, one.WorkerInfo)
		}
	}
	return due
}

// Asked says what an operator asks of a worker.
func (r *Room) Asked(key, worker string) job.WorkerState { return r.Asks.Of(holder(key, worker)) }

// Tell answers the waiting claims of workers that must claim nothing any more. It is called after Asks has changed.
func (r *Room) Tell() {
	r.waiters.mu.Lock()
	defer r.waiters.mu.Unlock()
	for _, one := range r.waiters.line {
		if r.Asks.Of(one.holder) != job.WorkerRuns {
			select {
			case one.told <- struct{}{}:
			default:
			}
		}
	}
}

package job

import (
	"maps"
	"sync/atomic"
	"time"
)

// WorkerState is what an operator asks of a worker.
type WorkerState string

// The states.
const (
	WorkerRuns       WorkerState = "run"
	WorkerQuiet      WorkerState = "quiet"     // it claims nothing, and finishes what it has
	WorkerTerminates WorkerState = "terminate" // it finishes or gives back what it has, and ends
)

// The kinds of workers.
const (
	ServerWorker  = "server"  // the pool of a tierq process
	HTTPWorker    = "http"    // another program
	FaktoryWorker = "faktory" // a worker of a Faktory client
	APIProcess    = "api"     // a process of tierq without a pool: no worker, but it claims for workers elsewhere
)

// WorkerInfo is one worker, by its own last report.
type WorkerInfo struct {
	Name      string      `json:"name"` // which the histories of attempts name
	Kind      string      `json:"kind"` // "" = of a process of an earlier version: ServerWorker
	State     WorkerState `json:"state"`
	Host      string      `json:"host"`
	PID       int         `json:"pid"`
	Version   string      `json:"version"`
	Language  string      `json:"language"`
	Slots     int         `json:"slots"`
	Running   int         `json:"running"`
	Stuck     int         `json:"stuck"`
	StartedAt time.Time   `json:"startedAt"` // of an HTTPWorker: when a process of tierq first heard of it
	SeenAt    time.Time   `json:"seenAt"`    // Redis' clock
	Queues    []string    `json:"queues"`    // from which it claims; none = main, of a process of an earlier version

	// Settings has those of the process' settings that should be equal on all processes, from config.Alike.
	Settings map[string]string `json:"settings,omitempty"`
	// BeatEveryMs is how often an HTTPWorker sends heartbeats at least, while it runs jobs. It is listed for longer then.
	BeatEveryMs int64 `json:"beatEveryMs,omitzero"`
	// OwnFree has the free slots that only jobs of some tiers may use, by the tiers' names, with "+" between those of one
	// priority.
	OwnFree map[string]int `json:"ownFree,omitempty"`
	// Pauses is the version of the pauses that the process has read.
	Pauses int64 `json:"pauses,omitzero"`
	// Silent is how long ago the worker was heard of.
	Silent time.Duration `json:"-"`
}

// Elsewhere says whether the worker is no process of tierq.
func (w *WorkerInfo) Elsewhere() bool { return KindElsewhere(w.Kind) }

// KindElsewhere says whether workers of a kind belong to other programs.
func KindElsewhere(kind string) bool { return kind == HTTPWorker || kind == FaktoryWorker }

// WorkerSight is what a process of tierq sees of a worker elsewhere when it calls.
type WorkerSight struct {
	Key, Worker string
	Queues      []string      // of a claim; none = unknown
	Running     int           // jobs that it runs; -1 = unknown
	BeatEvery   time.Duration // 0 = unknown
	Kind        string        // "" = HTTPWorker
	Info        *WorkerInfo   // what it says of itself: host, pid, version, language and slots; nil = nothing
}

// AskBook has what operators ask of workers, as it was last read. It is safe for concurrent use; the zero value asks
// nothing of any worker.
type AskBook struct {
	all atomic.Pointer[map[string]WorkerState]
}

// Set replaces what is asked, by the workers' names, and says whether anything has changed.
func (b *AskBook) Set(all map[string]WorkerState) bool {
	before := b.all.Swap(&all)
	return before == nil && len(all) > 0 || before != nil && !maps.Equal(*before, all)
}

// Of returns what is asked of a worker.
func (b *AskBook) Of(name string) WorkerState {
	if all := b.all.Load(); all != nil && (*all)[name] != "" {
		return (*all)[name]
	}
	return WorkerRuns
}

package sim

import (
	"fmt"
	"hash"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
)

// Options are what a run is told beside its seed.
type Options struct {
	Mutate    map[string]string   // scripts by name, broken on purpose
	AckFirst  bool                // acknowledge before the SQL commit: another seeded bug
	OwesFirst bool                // acknowledge only what a full Redis would have taken a callback for: a third one
	Between   func(Leases) Leases // what stands between each pool and its queue: more of them; nil = nothing
	Journal   JournalBugs
	OwnEngine bool // scripts run as the embedded server runs them: the same, and slower
	Trace     bool // keep every line
}

// Report is what a run showed.
type Report struct {
	Seed      uint64
	Calls     int
	Jobs      int
	Faults    map[string]int
	Hash      uint64
	Trace     []string
	Lasted    time.Duration // virtual
	Violation string        // "" = none; else which invariant, and what happened
}

// World is one run.
type World struct {
	Options
	seed  uint64
	plan  plan
	rng   *rand.Rand
	began time.Time

	store     *store
	sql       *database
	shadow    *shadow
	gate      gate
	processes []*process
	dying     []*process
	outside   *process // whom clients are at the gate
	clients   []*client
	others    sync.WaitGroup // the goroutines that are no process'
	lives     int
	restarts  map[int]time.Time // by slot
	ghosts    []*ghost
	storms    []storm // still to come
	losses    int     // how often Redis forgot everything
	stalled   time.Time
	sqlDown   time.Time
	lifted    time.Time  // when the limit of a full Redis was lifted; zero = it stays, or there is none
	tiers     []job.Plan // that a new process serves
	ackFirst  bool

	report  Report
	hash    hash.Hash64
	line    []byte    // of the trace, on its way into the hash
	busy    int       // grants at this very time
	forgets time.Time // when times to live were last told of the time
}

// Run plays one seed. It must be called in a synctest bubble, and leaves no goroutine behind.
func Run(seed uint64, o Options) Report {
	w := &World{
		Options: o, seed: seed, plan: newPlan(seed), rng: rand.New(rand.NewPCG(seed, 2)), began: time.Now(),
		restarts: map[int]time.Time{},
		sql: &database{
			outcomes: map[life]job.Outcome{}, letters: map[life]*job.DeadLetter{}, rows: map[job.ID]*row{},
			keys: map[string]*keyHeld{}, written: map[job.ID]time.Time{}, seen: map[sight]bool{}, outliving: map[job.ID]bool{},
		},
		ackFirst: o.AckFirst,
		tiers:    tiers(), hash: fnv.New64a(), forgets: time.Now(),
		report: Report{Seed: seed, Faults: map[string]int{}},
	}
	w.storms = w.plan.storms
	w.shadow = &shadow{
		w: w, jobs: map[job.ID]*known{}, clock: map[int]int64{}, claims: map[string]*claimed{},
		once: map[string]*kept{}, lost: map[job.ID]*known{},
	}
	var err error
	if w.store, err = newStore(o.OwnEngine); err != nil {
		w.fail("start", "%v", err)
		return w.report
	}
	for p := range w.plan.partitions {
		w.nameData(p, "first")
	}
	w.outside = &process{world: w, nonce: "clients", failures: map[string]int{}, disturbed: map[string]time.Time{},
		died: make(chan struct{})}
	for slot := range w.plan.slots {
		w.processes = append(w.processes, newProcess(w, slot))
	}
	for i, o := range w.plan.orders {
		c := &client{order: o, number: i, world: w}
		w.clients = append(w.clients, c)
		w.others.Go(c.run)
	}
	w.play()
	w.end()
	w.report.Jobs, w.report.Lasted, w.report.Hash = len(w.shadow.jobs), time.Since(w.began), w.hash.Sum64()
	return w.report
}

// nameData names a partition's data: a name that is made up would be another one in each run.
func (w *World) nameData(partition int, name string) {
	_, _ = w.store.do("SET", queue.Key(partition, "epoch"), name)
}

// fail notes the first violation; the run ends with it.
func (w *World) fail(check, format string, args ...any) {
	if w.report.Violation == "" {
		w.report.Violation = fmt.Sprintf("%s at %.1f s: %s", check, time.Since(w.began).Seconds(),
			fmt.Sprintf(format, args...))
		w.note("VIOLATION", w.report.Violation)
	}
}

// end lets all processes go: what they still want fails.
func (w *World) end() {
	all := append(w.dying, w.processes...)
	for _, p := range all {
		if p.alive() {
			p.kill()
		}
	}
	for _, c := range w.gate.bury(w.outside) {
		c.answer <- answer{err: errDead}
	}
	for _, p := range all {
		<-p.gone
		_ = p.client.Close()
	}
	w.others.Wait()
	synctest.Wait()
	w.store.close()
}

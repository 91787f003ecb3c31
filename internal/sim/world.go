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

// Options change a run, beside its seed.
type Options struct {
	Mutate    map[string]string   // the sources of scripts with a seeded bug, by name
	AckFirst  bool                // acknowledge before the SQL commit: another seeded bug
	OwesFirst bool                // no acknowledge while Redis is full: a third seeded bug
	NoLimits  bool                // the reconciler gives Redis no limits of keys of lines: a fourth seeded bug
	Between   func(Leases) Leases // wraps the queue of each pool; nil = no wrapper
	Journal   JournalBugs
	Schedules bool // schedules fire, see schedules.go
	// Seeded bugs of schedules: an occurrence is fired by each process that saw it, or its job has no row.
	FiresAgain, FiresNothing bool
	Batches                  bool // clients make batches, see batches.go
	BatchBugs                BatchBugs
	Flows                    bool // clients submit flows, see flows.go
	FlowBugs                 FlowBugs
	OwnEngine                bool // run scripts in the embedded server's own engine: the same result, and slower
	Trace                    bool // keep the text of every line
}

// Report is the result of a run.
type Report struct {
	Seed      uint64
	Calls     int
	Jobs      int
	Faults    map[string]int
	Hash      uint64
	Trace     []string
	Lasted    time.Duration // virtual
	Violation string        // "" = none; else the invariant, and what happened
}

// World is one run. The goroutines of processes and clients change it only in calls that the scheduler lets through
// the gate.
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
	outside   *process // stands at the gate for the clients
	clients   []*client
	others    sync.WaitGroup // the goroutines that belong to no process
	lives     int
	restarts  map[int]time.Time // by slot
	ghosts    []*ghost
	storms    []storm // those that have not begun
	losses    int     // how often Redis forgot everything
	stalled   time.Time
	sqlDown   time.Time
	lifted    time.Time  // when the limit of a full Redis was lifted; zero = the limit stays, or there is none
	tiers     []job.Plan // the plans of a process that starts now
	paused    []string   // the scopes of the pauses that hold
	own       []int      // the own slots that plans give, by priority
	ackFirst  bool

	report  Report
	hash    hash.Hash64
	line    []byte    // a buffer for a line of the trace, before it is hashed
	busy    int       // how many calls went through since time last passed
	forgets time.Time // until when the store has aged its times to live

	rounds            map[job.ID]*rounds    // of batches, for rule S30
	models            map[job.ID]*modelFlow // of flows, for rule S33
	uncounted, untold []job.Outcome         // of seeded bugs
}

// Run plays one seed. The caller must be in a synctest bubble. Run leaves no goroutine behind.
func Run(seed uint64, o Options) Report {
	w := &World{
		Options: o, seed: seed, plan: newPlan(seed), rng: rand.New(rand.NewPCG(seed, 2)), began: time.Now(),
		restarts: map[int]time.Time{},
		sql: &database{
			outcomes: map[life]job.Outcome{}, letters: map[life]*job.DeadLetter{}, rows: map[job.ID]*row{},
			keys: map[string]*keyHeld{}, written: map[job.ID]time.Time{}, seen: map[sight]bool{}, outliving: map[job.ID]bool{},
			limits: map[string]job.LineLimits{},
		},
		ackFirst: o.AckFirst,
		tiers:    tiers(), hash: fnv.New64a(), forgets: time.Now(),
		report: Report{Seed: seed, Faults: map[string]int{}},
	}
	if o.Schedules {
		w.sql.times = newTimes(w.began)
	}
	if o.Batches {
		w.sql.batches = &batches{all: map[job.ID]*job.Batch{}, members: map[job.ID]*member{}}
		w.rounds = map[job.ID]*rounds{}
		w.plan.batches(rand.New(rand.NewPCG(seed, 19)))
	}
	if o.Flows {
		w.sql.flows, w.sql.cascades, w.models = map[job.ID]*flow{}, map[life]bool{}, map[job.ID]*modelFlow{}
		w.plan.flows(rand.New(rand.NewPCG(seed, 20)))
	}
	w.storms, w.tiers = w.plan.storms, w.plan.withLines(w.tiers)
	w.shadow = &shadow{
		w: w, jobs: map[job.ID]*known{}, clock: map[int]int64{}, claims: map[string]*claimed{}, elsewhere: map[string]*byID{},
		once: map[string]*kept{}, places: map[job.ID]*place{}, lost: map[job.ID]*known{}, unique: map[string]*holding{},
		lastInput: map[string]job.ID{}, overtaken: map[job.ID]bool{},
		inputOver: map[job.ID]bool{}, lines: map[string]*keyOfLines{}, spent: spent{}, promoted: map[int]int64{},
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

// nameData sets a partition's epoch. The store would make up a random one, which differs in each run.
func (w *World) nameData(partition int, name string) {
	_, _ = w.store.do("HSET", queue.Key(partition, "counters"), "-", "1") // SQL has no places here
	_, _ = w.store.do("SET", queue.Key(partition, "epoch"), name)
}

// fail records the first violation, with which the run ends.
func (w *World) fail(check, format string, args ...any) {
	if w.report.Violation == "" {
		w.report.Violation = fmt.Sprintf("%s at %.1f s: %s", check, time.Since(w.began).Seconds(),
			fmt.Sprintf(format, args...))
		w.note("VIOLATION", w.report.Violation)
	}
}

// end kills all processes and waits for their goroutines. Calls that still wait at the gate fail.
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

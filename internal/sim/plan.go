package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
)

const (
	grid     = 100 * time.Millisecond // between two looks of the scheduler; most timers are multiples of its half
	offBeat  = 10 * time.Millisecond  // the pools' tickers run beside the grid, so that no tick meets a deadline
	playFor  = 8 * time.Second        // most of the clients' orders come within this time
	restFor  = 3 * time.Minute        // after the faults have ended, everything rests within this time
	base     = 10_000_000_000_000
	callTime = 1900 * time.Millisecond // go-redis' read timeout; just below the callers' own bounds
	beatTime = 400 * time.Millisecond
	bellTime = time.Second
)

// tiers returns the tiers' plans, with shorter times than the default ones.
func tiers() []job.Plan {
	backoff := job.Backoff{Base: 400 * time.Millisecond, Factor: 2, Cap: 2 * time.Second}
	return []job.Plan{
		{Tier: job.Paid, Priority: 1, MaxRetries: 3, HeartbeatTimeout: 3 * time.Second, MaxProcessingTime: 6 * time.Second,
			MaxCrashes: new(1), Share: 100, Backoff: backoff, Version: 1},
		{Tier: job.Unpaid, Priority: 2, MaxRetries: 2, HeartbeatTimeout: 2 * time.Second, MaxProcessingTime: 4 * time.Second,
			Share: 85, Backoff: backoff, Version: 1},
		{Tier: job.Public, Priority: 3, MaxRetries: 1, HeartbeatTimeout: time.Second, MaxProcessingTime: 2 * time.Second,
			MaxCrashes: new(0), Share: 60, Version: 1},
	}
}

// plan is what a seed draws.
type plan struct {
	calm       bool // no faults at all: no lease may be lost
	partitions int
	capacity   int
	living     int           // the limit of jobs that have not ended; 0 = none
	bytes      int           // the limit of these jobs' bytes; 0 = none
	laters     int           // how often a generation may report later without cost; 0 = any number
	laterAge   time.Duration // how long after its first attempt it may; 0 = for ever
	unknownFor time.Duration // how long a job waits for a worker that knows its type; 0 = for ever
	slots      []int         // of each process
	recovers   []bool        // which processes have the recovery role
	rates      map[string]float64
	storms     []storm
	heal       time.Duration // when the faults end
	keepKeys   time.Duration // of Idempotency-Keys
	retention  time.Duration // of ended jobs, with any outcome
	full       time.Duration // from when Redis has no memory for new jobs, until all else rests; 0 = never
	orders     []order
	lines      map[job.Tier]bool // which tiers have lines; nil = the seed has no lines
	notes      bool              // SQL knows which jobs run when Redis forgets
	journal    bool              // SQL has the row of a submit before Redis is called
	stamps     bool              // SQL is told at once when Redis has the job
}

// storm is a fault that begins at a time and does not belong to a call.
type storm struct {
	at, length time.Duration
	what       string
	process    int
}

// order is one task of a client.
type order struct {
	at time.Duration
	// submit, cancel, kill, hasten, requeue, poll, audit, plans, pause, own, limit, damage, forget, work, or one of those
	// of batches and flows
	what    string
	process int
	id      job.ID
	tier    job.Tier
	delay   time.Duration
	expires time.Duration // how long after its submit begins the job must be claimed; 0 = whenever
	by      int64         // the same as a time (ms), once the submit has begun
	once    job.Idempotency
	owner   string
	quota   int    // jobs that the owner may have in flight; 0 = any number
	queue   string // "" = main
	request string
	tries   int // how often a submit is sent until an answer comes, a poll asks, a worker claims;
	// which damage a line gets
	running bool          // a cancel of a running job, if there is one
	again   bool          // a cancel of a requeued job, if there is one
	tiers   []job.Plan    // the plans that all processes get, one process after the other
	pause   time.Duration // between two polls, or between two processes that hear of a change
	scope   string        // of a pause
	own     []int         // own slots by priority
	length  time.Duration // of a pause, also of a key of lines, or of own slots
	key     string        // of a submit: its unique key, and while what it holds the key; "" = none
	on      job.UniqueOn
	maxWait time.Duration
	line    string           // of a submit: the name of its line; "" = none
	limits  job.LineLimits   // of a key of lines
	batch   job.ID           // of a submit: the batch of which the job is a member; "" = none
	then    *job.Then        // of a batch
	members []job.JournalRow // that come with a batch
	sealed  bool             // of a batch: it comes sealed
	jobs    []job.FlowJob    // of a flow
	in      job.ID           // of a requeue: the batch or flow whose first dead letter it is about; "" = any job's
	cascade bool             // of a requeue

	// The fields below belong to a submit with the journal.
	turned   bool          // admission refuses it after its row was written
	still    string        // where its process stops for a while; "" = nowhere
	stillFor time.Duration // for how long at most
	wakes    string        // the event that ends the stop early; "" = none
	sends    bool          // the script is sent after the stop, even if the submit's time is over
}

// fates are the faults of a single call, with the rate that a seed with the fault has.
var fates = []struct {
	name string
	rate float64
}{
	{"reply lost", 0.05}, {"refused", 0.05}, {"unreachable", 0.04}, {"executed late", 0.03}, {"held", 0.05},
	{"script forgotten", 0.03},
	{"crash before", 0.004}, {"crash after", 0.006}, {"SQL refused", 0.06}, {"SQL reply lost", 0.08}, {"SQL slow", 0.06},
}

// allFates are fates and the one fault that only the journal has.
var allFates = append(slices.Clone(fates), struct {
	name string
	rate float64
}{name: sqlLate})

var stormKinds = []string{"crash", "crash", "drain", "partition", "partition", "stall", "SQL outage"}

// newPlan draws a plan. Most seeds have some kinds of fault and not the others, because many faults at once would
// hide what a few show.
func newPlan(seed uint64) plan {
	r := rand.New(rand.NewPCG(seed, 1))
	p := plan{
		calm: r.IntN(8) == 0, partitions: 1, capacity: []int{4, 8, 1000, 1000}[r.IntN(4)],
		rates: map[string]float64{}, heal: playFor + time.Duration(r.IntN(6))*time.Second,
	}
	for range 2 + r.IntN(2) {
		p.slots = append(p.slots, 1+r.IntN(4))
		p.recovers = append(p.recovers, r.IntN(3) > 0)
	}
	p.recovers[r.IntN(len(p.recovers))] = true
	p.jobs(r)
	p.owners(rand.New(rand.NewPCG(seed, 3)))
	p.queues(rand.New(rand.NewPCG(seed, 9)))
	p.others(rand.New(rand.NewPCG(seed, 4)))
	p.outsiders(rand.New(rand.NewPCG(seed, 10)))
	p.operators(rand.New(rand.NewPCG(seed, 11)))
	p.holds(rand.New(rand.NewPCG(seed, 12)))
	p.limits(rand.New(rand.NewPCG(seed, 5)))
	p.walks(rand.New(rand.NewPCG(seed, 6)))
	short := rand.New(rand.NewPCG(seed, 7))
	p.forgets(short)
	p.journals(rand.New(rand.NewPCG(seed, 8)))
	p.uniques(rand.New(rand.NewPCG(seed, 13)))
	p.expiries(rand.New(rand.NewPCG(seed, 17)))
	p.linesOf(rand.New(rand.NewPCG(seed, 18)))
	if p.calm {
		return p
	}
	if late := ticks(short, 1300, 1400); short.IntN(12) == 0 { // longer than forget spares ended jobs
		at := ticks(short, 5, 40)
		p.storms, p.heal = append(p.storms, storm{at: at, length: late, what: "SQL outage"}), at+late
		p.forgetAt(short, late)
	}
	for _, f := range fates {
		if r.IntN(2) == 0 {
			p.rates[f.name] = f.rate * (0.5 + r.Float64())
		}
	}
	for range r.IntN(4) {
		p.storms = append(p.storms, storm{
			at: ticks(r, 10, 100), length: ticks(r, 20, 90), what: stormKinds[r.IntN(len(stormKinds))],
			process: r.IntN(len(p.slots)),
		})
	}
	slices.SortStableFunc(p.storms, func(a, b storm) int { return int(a.at - b.at) })
	return p
}

// jobs draws the orders of submits, cancels and requeues.
func (p *plan) jobs(r *rand.Rand) {
	n, last := 3+r.IntN(10), []int{10, 60}[r.IntN(2)] // all at nearly the same time, or one by one
	for i := range n {
		o := order{
			at: ticks(r, 1, last), what: "submit", process: r.IntN(len(p.slots)),
			tier: []job.Tier{job.Paid, job.Unpaid, job.Public}[r.IntN(3)],
			id:   job.ID(fmt.Sprintf("%08x-0000-7000-8000-%010x%02x", i+1, i+1, r.IntN(p.partitions))),
		}
		o.tries = []int{1, 3}[r.IntN(2)]
		if r.IntN(6) == 0 {
			o.delay = ticks(r, 1, 30)
		}
		if r.IntN(6) == 0 {
			o.once = job.Idempotency{Key: fmt.Sprintf("%032x", o.id.Partition()), Body: fmt.Sprintf("%032x", r.IntN(4)/3)}
		}
		p.orders = append(p.orders, o)
	}
	for range r.IntN(6) {
		of := p.orders[r.IntN(n)]
		p.orders = append(p.orders, order{at: of.at + ticks(r, 0, 25), what: "cancel", process: r.IntN(len(p.slots)),
			id: of.id})
	}
	for i := range r.IntN(8) {
		of := p.orders[r.IntN(n)]
		p.orders = append(p.orders, order{
			at: of.at + ticks(r, 10, 80), what: "requeue", process: r.IntN(len(p.slots)), id: of.id, request: fmt.Sprint("r", i),
		})
	}
}

// owners gives the jobs of two thirds of the seeds to callers. In half of those seeds the callers have a quota
// that is soon reached.
func (p *plan) owners(r *rand.Rand) {
	names, quota := []string{"", "ann", "bob"}, []int{0, 0, 1, 3}[r.IntN(4)]
	if r.IntN(3) == 0 {
		names, quota = names[:1], 0
	}
	for i := range p.orders {
		if o := &p.orders[i]; o.what == "submit" {
			o.owner, o.quota = names[r.IntN(len(names))], quota
		}
	}
}

// otherQueue is a declared queue without a limit that a seed reaches. All processes claim from it and from main.
const otherQueue = "films"

// queues puts the jobs of half of the seeds into two queues.
func (p *plan) queues(r *rand.Rand) {
	if r.IntN(2) == 0 {
		return
	}
	for i := range p.orders {
		if o := &p.orders[i]; o.what == "submit" && r.IntN(2) == 0 {
			o.queue = otherQueue
		}
	}
}

// limits draws the limits of jobs that have not ended and the limits of "later". Each limit is missing in a part
// of the seeds.
func (p *plan) limits(r *rand.Rand) {
	p.living, p.bytes = []int{0, 0, 4, 6}[r.IntN(4)], []int{0, 0, 200, 400}[r.IntN(4)]
	p.laters, p.laterAge = []int{0, 1, 1, 2}[r.IntN(4)], []time.Duration{0, 0, 2 * time.Second}[r.IntN(3)]
	p.unknownFor = []time.Duration{0, time.Millisecond, 3 * time.Second}[r.IntN(3)]
}

// others draws the orders of cancels of running jobs, of audits and of polls.
func (p *plan) others(r *rand.Rand) {
	jobs := slices.DeleteFunc(slices.Clone(p.orders), func(o order) bool { return o.what != "submit" })
	for range r.IntN(4) {
		of := jobs[r.IntN(len(jobs))]
		p.orders = append(p.orders, order{at: of.at + ticks(r, 2, 60), what: "cancel", running: true,
			process: r.IntN(len(p.slots)), id: of.id})
	}
	for range r.IntN(4) {
		p.orders = append(p.orders, order{at: ticks(r, 5, 150), what: "audit", process: r.IntN(len(p.slots))})
	}
	for range r.IntN(4) {
		of := jobs[r.IntN(len(jobs))]
		p.orders = append(p.orders, order{
			at: of.at + ticks(r, 0, 40), what: "poll", process: r.IntN(len(p.slots)), id: of.id, tries: 2 + r.IntN(9),
			pause: ticks(r, 2, 12),
		})
	}
}

// operators draws, in half of the seeds, the orders to kill and to hasten jobs: soon after their submits, so that many
// still wait, and while they may back off. Each order may come twice.
func (p *plan) operators(r *rand.Rand) {
	jobs := slices.DeleteFunc(slices.Clone(p.orders), func(o order) bool { return o.what != "submit" })
	for range r.IntN(2) * (1 + r.IntN(6)) {
		of := jobs[r.IntN(len(jobs))]
		o := order{at: of.at + ticks(r, 0, 25), what: []string{"kill", "hasten"}[r.IntN(2)], process: r.IntN(len(p.slots)),
			id: of.id}
		p.orders = append(p.orders, o)
		if r.IntN(3) == 0 {
			o.at += ticks(r, 1, 60)
			p.orders = append(p.orders, o)
		}
	}
}

// outsiders draws the workers of other programs, in half of the seeds. They claim beside the processes' pools.
func (p *plan) outsiders(r *rand.Rand) {
	for range r.IntN(2) * (1 + r.IntN(3)) {
		p.orders = append(p.orders, order{at: ticks(r, 1, 40), what: "work", process: 0, tries: 2 + r.IntN(8)})
	}
}

// forgets draws orders to forget ended jobs as if memory were short: early, when no job may go, and in some seeds
// late, when all may.
func (p *plan) forgets(r *rand.Rand) {
	for range r.IntN(3) {
		p.forgetAt(r, ticks(r, 5, 150))
	}
	if r.IntN(12) == 0 {
		p.forgetAt(r, ticks(r, 1300, 1450))
	}
}

// forgetAt adds an order to forget, and soon after it an order for a job that may be gone by then.
func (p *plan) forgetAt(r *rand.Rand, at time.Duration) {
	of := p.orders[0]
	for _, what := range []string{"forget", []string{"cancel", "poll", "requeue"}[r.IntN(3)]} {
		p.orders = append(p.orders, order{
			at: at, what: what, process: r.IntN(len(p.slots)), id: of.id, tries: 2, pause: ticks(r, 2, 12), request: "late",
		})
		at += ticks(r, 1, 10)
	}
}

// ticks returns a random time on the grid, from a to b ticks.
func ticks(r *rand.Rand, a, b int) time.Duration { return time.Duration(a+r.IntN(b-a+1)) * grid }

package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/job"
)

// Mix says for each property what share of the jobs has it, from 0 to 1.
type Mix struct {
	Once    float64 // submitted under an Idempotency-Key, and submitted again after a lost answer
	Again   float64 // of these: submitted again after an answer
	Batch   float64 // submitted in a batch
	Delay   float64 // for up to MaxDelay
	Cancel  float64 // cancelled some time after it was accepted
	Requeue float64 // of the jobs that a poller sees FAILED
	Fail    float64 // fails once, or as often as it takes to be FAILED
	Later   float64 // gives itself back (later) once
	Hang    float64 // works for HangFor and ignores its context
	Call    float64 // names Receiver as its callbackUrl
	Reuse   float64 // of the submits under an Idempotency-Key: the key is that of an earlier job, still valid or expired
	Undo    float64 // of the accepted requeues: the requeued job is cancelled soon after
	// Elsewhere jobs are for the outsiders. Without outsiders there are none.
	Elsewhere float64
	Unique    float64 // of the jobs that are submitted singly: with a unique key
	Flow      float64 // of the requests for one job: a flow of four jobs is submitted instead
	Group     float64 // of the requests for one job: a batch with some members and a then job is made instead
	Line      float64 // of the other jobs of the tier LineTier: with a key of lines
}

// DefaultMix returns a mix with some jobs of each kind but the hanging ones.
func DefaultMix() Mix {
	return Mix{Once: 0.3, Again: 0.1, Batch: 0.2, Delay: 0.1, Cancel: 0.05, Requeue: 0.5, Fail: 0.06, Later: 0.03,
		Call:  0.05,
		Reuse: 0.2, Undo: 0.3, Elsewhere: 0.15, Unique: 0.15, Line: 0.4, Flow: 0.03, Group: 0.03}
}

// Options are what a load needs. The fields from Submitters on have defaults for their zero values.
type Options struct {
	Bases   func() []string // the servers' current addresses; some of the servers may be down
	Runs    string          // the handlers' file
	History string          // the history's file; "" = the history is in memory only
	Jobs    int             // how many jobs are submitted; a refused job does not count
	Rate    float64         // submits per second of all submitters; 0 = no limit
	Seed    uint64          // of all random numbers; two runs with one seed still differ in time
	Mix     Mix

	// Keys are the API keys of the clients. A submit comes with one of them, and all other requests about its job
	// with the same. Without keys the servers have to be open.
	Keys     []Key
	Admin    string // the API key for requeues
	Receiver string // the URL that leads to the Load's ServeHTTP; "" = no job has a callback

	Outsiders  int   // workers of other programs; Work runs them
	WorkerKeys []Key // their API keys, of the role worker
	Faktory    Faktory
	Schedules  Schedules

	Submitters int // 8
	Pollers    int // 4
	Tiers      []job.Tier
	KeyLife    time.Duration // how long the servers keep an Idempotency-Key; 0 = no key is used for a second job
	MaxSleep   time.Duration // of a job: 100 ms
	MaxDelay   time.Duration // before a job: 2 s
	HangFor    time.Duration // 5 s
	Timeout    time.Duration // of a request: 4 s
}

// Key is an API key: its id and its text.
type Key struct{ ID, Text string }

// Load is a group of clients of one cluster. It keeps a history of their requests and of what they saw.
type Load struct {
	Options
	*history
	http    *http.Client
	pace    *pace
	left    atomic.Int64 // jobs still to be submitted
	numbers atomic.Int64
	known   known
	used    usedKeys
	batches batches
	tiers   sync.Mutex // guards Tiers, which AddTier extends

	Soon, Later atomic.Int64 // keys used again before they expired, and after
	Again       atomic.Int64 // cancels of requeued jobs with an answer of 2xx
	Unique      atomic.Int64 // submits with a unique key
	Flows       atomic.Int64 // accepted flows
	Batches     atomic.Int64 // batches that were made
	InLines     atomic.Int64 // submits with a key of lines
	Outside     Outside
	OverFaktory OverFaktory
	operators   []*operator // of schedules
}

// New makes a load and opens the history's file.
func New(o Options) (*Load, error) {
	def := func(n *int, value int) {
		if *n == 0 {
			*n = value
		}
	}
	lasts := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	def(&o.Submitters, 8)
	def(&o.Pollers, 4)
	lasts(&o.MaxSleep, 100*time.Millisecond)
	lasts(&o.MaxDelay, 2*time.Second)
	lasts(&o.HangFor, 5*time.Second)
	lasts(&o.Timeout, 4*time.Second)
	if o.Tiers == nil {
		o.Tiers = []job.Tier{job.Paid, job.Unpaid, job.Public}
	}
	h, err := openHistory(o.History)
	if err != nil {
		return nil, err
	}
	l := &Load{Options: o, history: h, pace: &pace{rate: o.Rate}, http: &http.Client{
		Timeout: o.Timeout,
		Transport: &http.Transport{
			MaxIdleConnsPerHost: o.Submitters + o.Pollers + o.Outsiders, IdleConnTimeout: 10 * time.Second,
		},
	}}
	l.left.Store(int64(o.Jobs))
	return l, nil
}

// Run submits all jobs, and polls, cancels and requeues meanwhile. It returns after the last submit, or with the
// error of ctx.
func (l *Load) Run(ctx context.Context) error {
	watching, stop := context.WithCancel(ctx)
	var submitters, others sync.WaitGroup
	for n := range l.Pollers {
		others.Go(func() { l.poller(watching, fmt.Sprint("poller ", n), l.dice(1000+n)) })
	}
	for n := range l.Submitters {
		submitters.Go(func() { l.submitter(ctx, l.dice(n)) })
	}
	submitters.Wait()
	stop()
	others.Wait()
	l.http.CloseIdleConnections()
	return ctx.Err()
}

// Look polls every known job once more, or n random ones if n > 0, and looks at all batches. At rest each poll must
// show the job's end.
func (l *Load) Look(ctx context.Context, n int) error {
	ids := l.known.all()
	dice := l.dice(2000)
	if n > 0 && n < len(ids) {
		dice.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		ids = ids[:n]
	}
	var group sync.WaitGroup
	for p := range l.Pollers {
		dice := l.dice(3000 + p)
		group.Go(func() {
			for i := p; i < len(ids) && ctx.Err() == nil; i += l.Pollers {
				l.poll(ctx, fmt.Sprint("last look ", p), ids[i], dice)
				if dice.Float64() < strangers {
					l.intrude(ctx, ids[i], dice)
				}
			}
		})
	}
	group.Wait()
	l.lookAtBatches(ctx, dice)
	l.http.CloseIdleConnections()
	return ctx.Err()
}

func (l *Load) dice(n int) *rand.Rand { return rand.New(rand.NewPCG(l.Seed, uint64(n))) }

func (l *Load) base(dice *rand.Rand) string {
	bases := l.Bases()
	return bases[dice.IntN(len(bases))]
}

// poller polls random jobs until ctx ends, mostly young ones, and requeues some of the failed ones.
func (l *Load) poller(ctx context.Context, name string, dice *rand.Rand) {
	for wait(ctx, time.Duration(5+dice.IntN(20))*time.Millisecond) {
		if dice.Float64() < batchLooks {
			l.lookAtBatch(ctx, dice)
		}
		id, ok := l.known.pick(dice)
		if !ok {
			continue
		}
		if dice.Float64() < strangers {
			l.intrude(ctx, id, dice)
			continue
		}
		if p := l.poll(ctx, name, id, dice); p.Status == job.Failed && dice.Float64() < l.Mix.Requeue &&
			l.known.requeue(id, p.Generation) {
			l.requeue(ctx, id, p.Generation, dice)
		}
	}
}

// requeue sends a requeue, up to five times until an answer comes, always under one Idempotency-Key. All of them
// together may make one generation only.
func (l *Load) requeue(ctx context.Context, id job.ID, generation int, dice *rand.Rand) {
	op := check.Op{Kind: "requeue", ID: id, Generation: generation, Once: fmt.Sprintf("%s-%d", id, generation)}
	for range 5 {
		l.change(ctx, l.base(dice), http.MethodPost, "/admin/jobs/"+string(id)+"/resubmit", l.Admin, &op)
		if op.Fate != check.Unknown || !wait(ctx, time.Duration(dice.IntN(1000))*time.Millisecond) {
			break
		}
	}
	if op.Fate == check.OK && dice.Float64() < l.Mix.Undo && l.cancel(ctx, id, dice) == check.OK {
		l.Again.Add(1)
	}
}

// cancel waits up to 300 ms and sends one cancel.
func (l *Load) cancel(ctx context.Context, id job.ID, dice *rand.Rand) check.Fate {
	op := check.Op{Kind: "cancel", ID: id}
	if wait(ctx, time.Duration(dice.IntN(300))*time.Millisecond) {
		l.change(ctx, l.base(dice), http.MethodDelete, "/api/jobs/"+string(id), l.key(l.known.key(id)), &op)
	}
	return op.Fate
}

// AddTier adds a tier to those that jobs are submitted in.
func (l *Load) AddTier(t job.Tier) {
	l.tiers.Lock()
	defer l.tiers.Unlock()
	l.Tiers = append(l.Tiers, t)
}

func (l *Load) tier(dice *rand.Rand) job.Tier {
	l.tiers.Lock()
	defer l.tiers.Unlock()
	return l.Tiers[dice.IntN(len(l.Tiers))]
}

// wait waits for d. It returns false if ctx ended first.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// pace spreads the submits over time.
type pace struct {
	mu   sync.Mutex
	rate float64
	next time.Time
}

// wait waits for the turn of n submits. It returns false if ctx ended first.
func (p *pace) wait(ctx context.Context, n int) bool {
	if p.rate <= 0 {
		return ctx.Err() == nil
	}
	p.mu.Lock()
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	turn := p.next
	p.next = p.next.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
	p.mu.Unlock()
	return wait(ctx, turn.Sub(now))
}

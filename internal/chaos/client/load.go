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

// Mix says how large a share of the jobs has what, each from 0 to 1.
type Mix struct {
	Once    float64 // submitted under an Idempotency-Key, and again under it when nobody answered
	Again   float64 // of these: submitted again although it was answered
	Batch   float64 // submitted in a batch
	Delay   float64 // for up to MaxDelay
	Cancel  float64 // cancelled some time after it was accepted
	Requeue float64 // of the jobs that a poller sees FAILED
	Fail    float64 // fails once, or as often as it takes to be FAILED
	Later   float64 // gives itself back once
	Hang    float64 // runs for HangFor, whatever it is told
	Call    float64 // names Receiver as its callbackUrl
	Reuse   float64 // of the submits under an Idempotency-Key: the key is that of an earlier job, young or expired
	Undo    float64 // of the requeues that were promised: the new life is cancelled soon after
}

// DefaultMix has something of everything.
func DefaultMix() Mix {
	return Mix{Once: 0.3, Again: 0.1, Batch: 0.2, Delay: 0.1, Cancel: 0.05, Requeue: 0.5, Fail: 0.06, Later: 0.03,
		Call:  0.05,
		Reuse: 0.2, Undo: 0.3}
}

// Options are what a load needs. The zero values of the last ones stand for something sensible.
type Options struct {
	Bases   func() []string // the servers' addresses, as they are now; a server that is down may be among them
	Runs    string          // the handlers' file
	History string          // the history's file; "" = it is kept in memory only
	Jobs    int             // so many are submitted, not counting those that were refused
	Rate    float64         // submits per second in all; 0 = as fast as it goes
	Seed    uint64          // of everything that is decided by chance; two runs still differ in time
	Mix     Mix

	// submits come with one of these each, and what is done with a job with the same; none = the servers are open
	Keys     []Key
	Admin    string // the key that may requeue
	Receiver string // the URL that leads to the Load's ServeHTTP; "" = nobody is called

	Submitters int // 8
	Pollers    int // 4
	Tiers      []job.Tier
	KeyLife    time.Duration // how long the servers keep an Idempotency-Key; 0 = no key is used for another job
	MaxSleep   time.Duration // of a job: 100 ms
	MaxDelay   time.Duration // before a job: 2 s
	HangFor    time.Duration // 5 s
	Timeout    time.Duration // of a request: 4 s
}

// Key is an API key: what it is known by, and its text.
type Key struct{ ID, Text string }

// Load is clients of a cluster that keep a history of what they did and what they saw.
type Load struct {
	Options
	*history
	http    *http.Client
	pace    *pace
	left    atomic.Int64 // jobs still to be submitted
	numbers atomic.Int64
	known   known
	used    usedKeys
	tiers   sync.Mutex // guards Tiers, which may grow

	Soon, Later atomic.Int64 // keys used again before they expired, and after it
	Again       atomic.Int64 // cancels of requeued jobs that were answered with 2xx
}

// New makes a load. It opens the history's file.
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
		Timeout:   o.Timeout,
		Transport: &http.Transport{MaxIdleConnsPerHost: o.Submitters + o.Pollers, IdleConnTimeout: 10 * time.Second},
	}}
	l.left.Store(int64(o.Jobs))
	return l, nil
}

// Run submits all jobs, and polls, cancels and requeues meanwhile. It returns when the last one was submitted, or with
// ctx' error.
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

// Look polls every job whose id is known once more, or n of them by chance if n > 0: at rest, each must show its end.
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
	l.http.CloseIdleConnections()
	return ctx.Err()
}

func (l *Load) dice(n int) *rand.Rand { return rand.New(rand.NewPCG(l.Seed, uint64(n))) }

func (l *Load) base(dice *rand.Rand) string {
	bases := l.Bases()
	return bases[dice.IntN(len(bases))]
}

// poller looks at jobs by chance, mostly at young ones, and asks for a new life of some that are dead.
func (l *Load) poller(ctx context.Context, name string, dice *rand.Rand) {
	for wait(ctx, time.Duration(5+dice.IntN(20))*time.Millisecond) {
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

// requeue asks until it is answered, under one name: however often it is asked, it is one new life.
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

// cancel asks once, after a while.
func (l *Load) cancel(ctx context.Context, id job.ID, dice *rand.Rand) check.Fate {
	op := check.Op{Kind: "cancel", ID: id}
	if wait(ctx, time.Duration(dice.IntN(300))*time.Millisecond) {
		l.change(ctx, l.base(dice), http.MethodDelete, "/api/jobs/"+string(id), l.key(l.known.key(id)), &op)
	}
	return op.Fate
}

// AddTier has jobs submitted in one more tier from now on.
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

// wait lets d pass and says whether ctx still goes on.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// pace spreads submits over time.
type pace struct {
	mu   sync.Mutex
	rate float64
	next time.Time
}

// wait waits for the turn of n submits.
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

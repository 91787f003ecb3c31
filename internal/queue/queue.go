// Package queue is the Redis side of tierq. A Queue has one method per script of the state machine, the plans, and
// what else a process needs to run jobs. A View has the readings for polls, pages and metrics. A script call
// touches one partition, holds at most job.MaxBatch entries and about job.MaxBatchBytes, and may be sent twice,
// except that of Rates. The error is job.ErrUnavailable or job.ErrAmbiguous if Redis is the cause.
package queue

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Options configure a queue. Partitions, PriorityBase, Capacity, ScheduledLimit, HeartbeatInterval and Journal
// must be equal in all processes of the cluster: CheckSetup returns an error in a process whose values differ.
type Options struct {
	Nonce             string // the process' name in tokens: without spaces, without a colon at its end
	Partitions        int
	PriorityBase      int64
	Capacity          int           // never-claimed ready jobs, over all partitions
	ScheduledLimit    int           // jobs scheduled at submit, over all partitions; see LivingBytes
	LivingLimit       int           // jobs that have not ended, over all partitions; 0 = any number
	LivingBytes       int           // bytes of living jobs, half for scheduled ones; 0 = no limit until FitMemory
	LaterLimit        int           // how often a generation may be later without a retry; 0 = any number
	LaterAge          time.Duration // how long after its first attempt a generation may be later; 0 = for ever
	UnknownFor        time.Duration // how long a job waits for a worker that knows its type; 0 = for ever
	HeartbeatInterval time.Duration
	Retention         time.Duration // of COMPLETED and CANCELLED jobs, from acknowledge; 0 = forget at once
	FailedRetention   time.Duration
	KeepKeys          time.Duration // how long an Idempotency-Key is kept; 1 h if not positive
	KeepEnded         int           // the most ended jobs that Redis keeps, roughly
	Journal           bool          // SQL has journal rows of living jobs, and their keys
	Embedded          bool          // the Redis server lives in this process

	Queues *job.QueueBook // the declared queues, which LoadQueues reads; nil = an empty book
	Asks   *job.AskBook   // what operators ask of workers, which LoadQueues reads; nil = an empty book
	Pauses *job.PauseBook // what is paused, which LoadQueues reads; nil = an empty book
	Told   func()         // called when Asks or Pauses has changed; may be nil
	Serves []string       // the queues from which this process claims; nil = main

	// Observe is called after every script call with the script's name, the partition, the duration and the error or
	// nil. It may be nil.
	Observe func(script string, partition int, took time.Duration, err error)
	// Cancelled is called for each job that a cancel ended, with the job's tier. It is not called if the reply of the
	// first call was lost. It may be nil.
	Cancelled func(job.Tier)
	Killed    func(job.Tier) // the same of a kill
	Expired   func(job.Tier) // the same of a job that nobody claimed by its time
	Log       *slog.Logger   // gets the data that cannot be read; may be nil

	// RememberedQueues reads the queues that SQL has; nil = there is no SQL. See LoadQueues.
	RememberedQueues func(ctx context.Context) ([]job.Queue, error)

	// RememberedPauses reads the pauses that SQL has; nil = there is no SQL. See LoadQueues.
	RememberedPauses func(ctx context.Context) (job.Pauses, error)

	// RememberedPlaces reserves the places of the jobs that SQL has in partitions that have lost them; nil = there is no
	// SQL. See LoadPlans.
	RememberedPlaces func(ctx context.Context, lost func(partition int) bool) error

	// RememberedPlans reads the plans that SQL has; nil = there is no SQL. See LoadPlans.
	RememberedPlans func(ctx context.Context) ([]job.Plan, error)
}

// Queue calls the scripts that move jobs. It is safe for concurrent use.
type Queue struct {
	*shared

	runs      []atomic.Pointer[life] // by partition, as Incarnations last read them
	settling  time.Duration          // how long rows get the previous incarnation
	planDoubt atomic.Bool            // the next LoadPlans reads SQL too

	turn     atomic.Uint64            // of the queues, for claims that may meet lines
	loading  sync.Mutex               // held by the one LoadQueues
	placing  sync.Mutex               // held by the one keepPlaces
	rung     []atomic.Pointer[string] // by partition: the doorbell whose token Wait took last
	channels map[string]string        // channel names without the partition, by their names in the scripts' KEYS

	submit, claim, heartbeat, complete, fail, promote, restore bound
	cancel, kill, hasten, expire, limitKeys, log               bound
	takeOutbox, acknowledge, audit, recount, rate, forget      bound
	reserve, unreserve                                         bound
	reclaim                                                    map[job.Watch]bound
}

// shared is the part that a Queue and its Views have in common.
type shared struct {
	opts    Options
	plans   *job.PlanBook
	redis   Clients
	clock   clock
	counted []atomic.Pointer[counts] // by partition, as Levels last read them
	pace    pace
	sealing atomic.Pointer[seal]

	livingBytes atomic.Int64 // Options.LivingBytes, or what FitMemory found
}

// New makes a queue over open clients. plans is the book that LoadPlans fills; the scripts' arguments come from
// it.
func New(c Clients, plans *job.PlanBook, o Options) *Queue {
	if o.Observe == nil {
		o.Observe = func(string, int, time.Duration, error) {}
	}
	if o.Cancelled == nil {
		o.Cancelled = func(job.Tier) {}
	}
	if o.Killed == nil {
		o.Killed = func(job.Tier) {}
	}
	if o.Expired == nil {
		o.Expired = func(job.Tier) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Asks == nil {
		o.Asks = &job.AskBook{}
	}
	if o.Pauses == nil {
		o.Pauses = &job.PauseBook{}
	}
	if o.Queues == nil {
		o.Queues = &job.QueueBook{}
	}
	if o.Serves == nil {
		o.Serves = []string{job.MainQueue}
	}
	if o.KeepKeys <= 0 {
		o.KeepKeys = time.Hour
	}
	q := &Queue{
		shared: &shared{
			opts: o, plans: plans, redis: c,
			clock:   clock{of: make([]atomic.Pointer[reading], max(o.Partitions, 1))},
			counted: make([]atomic.Pointer[counts], max(o.Partitions, 1)),
		},
		runs:     make([]atomic.Pointer[life], max(o.Partitions, 1)),
		rung:     make([]atomic.Pointer[string], max(o.Partitions, 1)),
		channels: map[string]string{},
	}
	for _, channel := range []string{eventsChannel, alarmsChannel} {
		q.channels[channel] = channelSuffix(channel, c.Main)
	}
	if succeeds(c.Main) {
		q.settling = settling
	}
	q.livingBytes.Store(int64(o.LivingBytes))
	q.submit = q.bind("submit", nil)
	q.claim = q.bind("claim", map[string]string{"claims": claimsSuffix(o.Nonce)})
	q.heartbeat = q.bind("heartbeat", nil)
	q.log = q.bind("log", nil)
	q.complete = q.bind("complete", nil)
	q.fail = q.bind("fail", nil)
	q.promote = q.bind("promote", nil)
	q.expire = q.bind("expire", nil)
	q.cancel = q.bind("cancel", nil)
	q.kill = q.bind("kill", nil)
	q.hasten = q.bind("hasten", nil)
	q.restore = q.bind("restore", nil)
	q.limitKeys = q.bind("limit_keys", nil)
	q.reserve = q.bind("reserve", nil)
	q.unreserve = q.bind("unreserve", nil)
	q.takeOutbox = q.bind("take_outbox", nil)
	q.acknowledge = q.bind("acknowledge", nil)
	q.forget = q.bind("forget", nil)
	q.audit = q.bind("audit", nil)
	q.recount = q.bind("recount", map[string]string{
		"crashed": suspectsSuffix(job.Crashed), "stuck": suspectsSuffix(job.Stuck),
	})
	q.rate = q.bind("rate", nil)
	q.reclaim = map[job.Watch]bound{
		job.Crashed: q.bind("reclaim", watchSuffixes(job.Crashed)),
		job.Stuck:   q.bind("reclaim", watchSuffixes(job.Stuck)),
	}
	return q
}

// Probe makes one tiny write, so that a read-only or full server does not count as healthy. It touches no
// partition.
func (q *Queue) Probe(ctx context.Context) error {
	if err := q.redis.Main.Set(ctx, probeKey, q.opts.Nonce, time.Minute).Err(); err != nil {
		return classify("probe", err)
	}
	return nil
}

// ProbePartition is Probe for the server that has a partition.
func (q *Queue) ProbePartition(ctx context.Context, partition int) error {
	if err := q.redis.Main.Set(ctx, Key(partition, "probe"), q.opts.Nonce, time.Minute).Err(); err != nil {
		return classify("probe", err)
	}
	return nil
}

package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"regexp"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/chaos/client"
	"github.com/tierq/tierq/internal/testkit"
)

// Options set the size of a run, the faults and the load.
type Options struct {
	Seed     uint64        // decides which faults come, in which order
	Servers  int           // processes of tierq
	Jobs     int           // submits
	Accepted int           // how many submits have to be accepted; fewer are a violation
	Over     time.Duration // how long faults come; the load is spread over the same time
	Kills    int           // processes to kill at least; behind schedule, the next fault of a server is a kill
	// Kinds is how many kinds of fault have to land. If too few have landed, faults go on, up to three times Over.
	Kinds    int
	Gap      time.Duration // the mean time between two faults of one server; a store's is twice that
	Embedded bool          // one embedded server: it has its stores inside its process
	Journal  bool          // TIERQ_JOURNAL=on, and the faults after which Redis has forgotten jobs
	Clean    bool          // no faults at all
	Repair   bool          // the servers are asked for passes of their audit
	Only     *regexp.Regexp
	Binary   string         // tierq with failpoints; "" = the run builds it
	Verbose  io.Writer      // gets a line per fault; nil = no lines
	Forget   bool           // remove the logs even after a failure
	KnownRed *regexp.Regexp // which walks of knownRed the run makes all the same; nil = none

	Partitions int           // 0 = the seed decides
	Capacity   int           // 0 = the seed decides
	Retention  time.Duration // of ended jobs in Redis; 0 = 1 min
	KeepNone   bool          // a retention of 0; where that walk is allowed, the seed may set it too

	Mix      *client.Mix   // of the jobs; nil = client.DefaultMix
	MaxSleep time.Duration // of a job; 0 = 100 ms
	Bound    time.Duration // the longest time until the system is at rest; 0 = restBound

	bin     string
	scripts map[string]string // the scripts that differ from this program's own, by name
}

// Short returns the options of a run that fits into the test suite.
func Short() Options {
	return Options{Servers: 3, Jobs: 2000, Accepted: 1800, Over: 25 * time.Second, Kills: 20, Kinds: 12,
		Gap: 1200 * time.Millisecond, MaxSleep: 300 * time.Millisecond, Repair: true}
}

// Long returns the options of the run that measures the promise: 100,000 accepted jobs, and 3,000 more submits for
// the answers that get lost.
func Long() Options {
	return Options{Servers: 3, Jobs: 103_000, Accepted: 100_000, Over: 30 * time.Minute, Kills: 500, Kinds: 30,
		Gap: 4 * time.Second, MaxSleep: 400 * time.Millisecond, Repair: true}
}

// Undisturbed returns the options of a load without any fault, as fast as the servers accept it.
func Undisturbed() Options {
	return Options{Servers: 3, Jobs: 100_000, Over: 4 * time.Minute, MaxSleep: 20 * time.Millisecond, Clean: true,
		Partitions: 1, Capacity: roomy}
}

const (
	roomy = 10_000 // the default
	tight = 50     // so small that the queue is full nearly all the time
)

// workers returns the workers of a server. Where the capacity is tight they are few: also on a machine too slow for
// the load's rate, more jobs have to come than run.
func (o *Options) workers() int {
	if o.Capacity == tight {
		return 3
	}
	return 8
}

// draw lets the seed set the options that are zero. Half of the runs have two partitions. One run in four has the
// capacity tight. Where the walk noRetention is allowed, one run in three has a retention of 0.
func (o *Options) draw() {
	dice := rand.New(rand.NewPCG(o.Seed, 600))
	partitions, capacity := 1+dice.IntN(2), roomy
	if dice.IntN(4) == 0 {
		capacity = tight
	}
	if o.Embedded {
		partitions = 1
	}
	o.Partitions, o.Capacity = cmp.Or(o.Partitions, partitions), cmp.Or(o.Capacity, capacity)
	o.Retention = cmp.Or(o.Retention, time.Minute)
	if o.KeepNone || o.walks(noRetention) && dice.IntN(3) == 0 {
		o.Retention = 0
	}
}

// restBound is the longest time from the last fault until the system is at rest. Three times decide it: a crash is
// found within the times of DESIGN; an outcome that its process could not write is taken out of the outbox after
// 10 s and again after 10 s; a refusal of SQL is retried within 30 s.
const restBound = 90 * time.Second

// Run runs the load and the faults, waits for rest, and returns the verdict. An error means that the run itself
// failed; the promises that the servers broke are in the report. The error, or a fact of a report with violations,
// names the folder with all logs. Otherwise Run removes the folder.
func Run(ctx context.Context, o Options) (report check.Report, err error) {
	if o.bin = o.Binary; o.bin == "" {
		if o.bin, err = testkit.Build("failpoint"); err != nil {
			return report, err
		}
	}
	o.draw()
	for _, line := range o.leftOut() {
		fmt.Fprintf(o.out(), "not walked, known red: %s\n", line)
	}
	c, err := startCluster(ctx, o)
	if errors.Is(err, errBricked) {
		report.Violations = check.CheckWitness(check.Evidence{}, c.beside)
		_ = os.RemoveAll(c.dir) // the violation has all the information
		return report, nil
	}
	if err != nil {
		return report, err
	}
	defer func() {
		c.stop()
		if o.Forget || err == nil && len(report.Violations) == 0 {
			_ = os.RemoveAll(c.dir) // a leftover in the temporary folder does no harm
			return
		}
		err = c.keep(&report, err)
	}()
	began := time.Now()
	e, w, err := c.work(ctx)
	if err != nil {
		return report, err
	}
	report = check.Check(e)
	report.Violations = append(report.Violations, check.CheckWitness(e, w)...)
	if o.Clean {
		report.Violations = append(report.Violations, check.CheckOrder(e)...)
	}
	c.facts(ctx, &report, &e, &w, time.Since(began))
	return report, nil
}

// work runs load and faults, from the first submit until the system is at rest.
func (c *cluster) work(ctx context.Context) (e check.Evidence, w check.Witness, err error) {
	running, abort := context.WithCancel(ctx)
	defer abort()
	c.abort, c.began = abort, time.Now()
	load, err := c.newLoad()
	c.load = load
	if err != nil {
		return e, w, err
	}
	breaking, calm := context.WithCancel(running) // the load goes on: another job replaces each refused one
	defer calm()
	var lanes, nurse sync.WaitGroup
	if !c.Clean {
		lanes.Go(func() {
			c.awaitEnough(breaking)
			calm()
		})
		if !c.Embedded { // an embedded server's Redis is inside its process
			lanes.Go(func() { c.looks(breaking) })
		}
		if c.Repair {
			lanes.Go(func() { c.passes(breaking) })
		}
		lanes.Go(func() { load.Operate(breaking) })
		for _, l := range c.lanes() {
			lanes.Go(func() { l.run(breaking) })
		}
	}
	resting, rested := context.WithCancel(running)
	nurse.Go(func() {
		lanes.Wait()
		c.nurse(resting)
	})
	hired, leave := context.WithCancel(running)
	var outsiders sync.WaitGroup
	outsiders.Go(func() { load.Work(hired) })
	dismiss := func() {
		leave()
		outsiders.Wait()
	}
	err = load.Run(running)
	lanes.Wait()
	if err == nil {
		e, w, err = c.rest(resting, load, dismiss)
	} else {
		err = fmt.Errorf("load: %w", err)
	}
	rested()
	dismiss()
	nurse.Wait()
	if c.broken != nil {
		return e, w, c.broken
	}
	return e, w, err
}

// lanes returns the lanes: one for each server and each store, and one for the faults of the whole house. Each
// lane has random numbers of its own. Options.Only selects the kinds; a lane without a kind is left out.
func (c *cluster) lanes() []*lane {
	add := func(all []*lane, name string, kinds []kind, l lane) []*lane {
		l.c, l.name = c, name
		l.rng = rand.New(rand.NewPCG(c.Seed, uint64(len(all)+1)))
		for _, k := range kinds {
			if c.Only == nil || c.Only.MatchString(k.id+" "+k.what) {
				l.kinds = append(l.kinds, k)
			}
		}
		if len(l.kinds) == 0 {
			return all
		}
		return append(all, &l)
	}
	var all []*lane
	if c.Embedded {
		s := c.servers[0]
		all = add(all, "the server", ofEmbedded(), lane{s: s, lock: &s.lock, gap: c.Gap})
		return add(all, "the house", c.ofTheHouse(), lane{lock: &sync.Mutex{}, gap: 3 * c.Gap})
	}
	for _, s := range c.servers {
		all = add(all, fmt.Sprint("server ", s.n), c.ofServers(), lane{s: s, lock: &s.lock, gap: c.Gap})
	}
	all = add(all, "Redis", c.ofRedis(), lane{target: "redis", lock: &sync.Mutex{}, gap: 2 * c.Gap})
	all = add(all, "MariaDB", ofSQL(), lane{target: "mysql", lock: &sync.Mutex{}, gap: 2 * c.Gap})
	return add(all, "the house", c.ofTheHouse(), lane{lock: &sync.Mutex{}, gap: 3 * c.Gap})
}

// awaitEnough returns when the faults are to end: after Over, or later if too few have landed by then, at the
// latest after three times Over.
func (c *cluster) awaitEnough(ctx context.Context) {
	if !hold(ctx, c.Over) {
		return
	}
	for time.Since(c.began) < 3*c.Over && c.few() && hold(ctx, 100*time.Millisecond) {
	}
}

func (c *cluster) few() bool {
	c.notes.Lock()
	defer c.notes.Unlock()
	kinds := map[string]bool{}
	for _, f := range c.faults {
		kinds[f.Kind] = true
	}
	return c.kills < c.Kills || len(kinds) < c.Kinds && c.Only == nil
}

// behind says whether fewer processes were killed than the plan wants by now. The plan is ahead of an even pace by
// 20 %.
func (c *cluster) behind() bool {
	c.notes.Lock()
	defer c.notes.Unlock()
	return float64(c.kills) < 1.2*float64(c.Kills)*time.Since(c.began).Seconds()/c.Over.Seconds()
}

// keep leaves the folder in place and adds its name to the error or to the report.
func (c *cluster) keep(report *check.Report, err error) error {
	if err != nil {
		return fmt.Errorf("%w (logs in %s)", err, c.dir)
	}
	report.Fact("logs in", "%s", c.dir)
	return nil
}

func childRNG(r *rand.Rand) *rand.Rand { return rand.New(rand.NewPCG(r.Uint64(), r.Uint64())) }

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

// Options say how long and how hard.
type Options struct {
	Seed     uint64        // decides which faults come, in which order
	Servers  int           // processes of tierq
	Jobs     int           // submits
	Accepted int           // of these, how many have to be accepted
	Over     time.Duration // how long faults come; the load is spread over the same time
	Kills    int           // processes to kill at least; behind schedule, the next fault of a server is a kill
	// kinds of fault to land at least: on a slow machine faults come for longer than Over, up to three times as long
	Kinds    int
	Gap      time.Duration // the mean time between two faults of one server; stores have twice that
	Embedded bool          // one server, which has its stores in itself
	Journal  bool          // TIERQ_JOURNAL=on, and with it the faults after which Redis forgets
	Clean    bool          // no faults at all
	Repair   bool          // the servers are asked for passes of their audit
	Only     *regexp.Regexp
	Binary   string         // tierq with failpoints; "" = it is built
	Verbose  io.Writer      // a line per fault; nil = none
	Forget   bool           // remove the logs whatever happened
	KnownRed *regexp.Regexp // which of the walks that are known to be red are made all the same; nil = none

	Partitions int           // 0: the seed says
	Capacity   int           // 0: the seed says
	Retention  time.Duration // of ended jobs in Redis; 0 = 1 min
	KeepNone   bool          // a retention of 0; where that is walked, the seed may say so too

	Mix      *client.Mix   // of the jobs; nil = something of everything
	MaxSleep time.Duration // of a job; 0 = 100 ms
	Bound    time.Duration // for coming to rest; 0 = restBound

	bin     string
	scripts map[string]string // those that are not what this program was built with, by name
}

// Short is what fits into a test run.
func Short() Options {
	return Options{Servers: 3, Jobs: 2000, Accepted: 1800, Over: 25 * time.Second, Kills: 20, Kinds: 12,
		Gap: 1200 * time.Millisecond, MaxSleep: 300 * time.Millisecond, Repair: true}
}

// Long is what the promise is measured by: 100,000 jobs, and some for the answers that get lost.
func Long() Options {
	return Options{Servers: 3, Jobs: 103_000, Accepted: 100_000, Over: 30 * time.Minute, Kills: 500, Kinds: 30,
		Gap: 4 * time.Second, MaxSleep: 400 * time.Millisecond, Repair: true}
}

// Undisturbed is the same load without any fault, as fast as the servers take it.
func Undisturbed() Options {
	return Options{Servers: 3, Jobs: 100_000, Over: 4 * time.Minute, MaxSleep: 20 * time.Millisecond, Clean: true,
		Partitions: 1, Capacity: roomy}
}

const (
	roomy = 10_000 // the default
	tight = 50     // so little that it is full all the time
)

// draw lets the seed say what was left open: half of the runs have two partitions, one in four hardly any room.
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

// restBound is when everything has to be at rest after the last fault: a crash is found within the times of DESIGN, an
// outcome that its process could not write is taken out of the outbox after 10 s and again after 10 s, a backed-off SQL
// refusal within 30 s.
const restBound = 90 * time.Second

// Run runs the load and the faults, waits for rest, and returns the verdict. Its error says that the run itself failed;
// what the servers broke is in the report. The folder with all logs is named in the error, or in a fact of a report
// with violations, and else removed.
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
		_ = os.RemoveAll(c.dir) // the violation says what there is to know
		return report, nil
	}
	if err != nil {
		return report, err
	}
	defer func() {
		c.stop()
		if o.Forget || err == nil && len(report.Violations) == 0 {
			_ = os.RemoveAll(c.dir) // what is left in the temporary folder harms nobody
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

// work is the run from the first submit to rest.
func (c *cluster) work(ctx context.Context) (e check.Evidence, w check.Witness, err error) {
	running, abort := context.WithCancel(ctx)
	defer abort()
	c.abort, c.began = abort, time.Now()
	load, err := c.newLoad()
	c.load = load
	if err != nil {
		return e, w, err
	}
	breaking, calm := context.WithCancel(running) // what was refused meanwhile is submitted afterwards
	defer calm()
	var lanes, nurse sync.WaitGroup
	if !c.Clean {
		lanes.Go(func() {
			c.awaitEnough(breaking)
			calm()
		})
		if !c.Embedded { // its Redis is inside the process
			lanes.Go(func() { c.looks(breaking) })
		}
		if c.Repair {
			lanes.Go(func() { c.passes(breaking) })
		}
		for _, l := range c.lanes() {
			lanes.Go(func() { l.run(breaking) })
		}
	}
	resting, rested := context.WithCancel(running)
	nurse.Go(func() {
		lanes.Wait()
		c.nurse(resting)
	})
	err = load.Run(running)
	lanes.Wait()
	if err == nil {
		e, w, err = c.rest(resting, load)
	} else {
		err = fmt.Errorf("load: %w", err)
	}
	rested()
	nurse.Wait()
	if c.broken != nil {
		return e, w, c.broken
	}
	return e, w, err
}

// lanes are who breaks what: one for each server and each store, and one for the house. Each has dice of its own.
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

// awaitEnough returns when the faults are to end: after Over, or later if too few have landed by then.
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

// behind says whether fewer were killed than the plan wants by now.
func (c *cluster) behind() bool {
	c.notes.Lock()
	defer c.notes.Unlock()
	return float64(c.kills) < 1.2*float64(c.Kills)*time.Since(c.began).Seconds()/c.Over.Seconds()
}

// keep leaves the folder where it is and says so.
func (c *cluster) keep(report *check.Report, err error) error {
	if err != nil {
		return fmt.Errorf("%w (logs in %s)", err, c.dir)
	}
	report.Fact("logs in", "%s", c.dir)
	return nil
}

func childRNG(r *rand.Rand) *rand.Rand { return rand.New(rand.NewPCG(r.Uint64(), r.Uint64())) }

package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// outsider is a worker of another program, as package leasing serves it: it claims by id, repeats a claim whose answer
// was lost, and each of its calls goes to another process, as behind a balancer.
type outsider struct {
	*client
	rng  *rand.Rand
	name string // its tokens begin with its name; no process' nonce begins with the same letter
}

// outsiders is the first letter of the names of outsiders.
const outsiders = "w"

// work makes some claims, one after the other, and runs what they bring.
func (c *client) work() {
	o := &outsider{c, rand.New(rand.NewPCG(c.world.seed, 1000+uint64(c.number))), fmt.Sprint(outsiders, c.number)}
	for round := range c.tries {
		for _, l := range o.claim(fmt.Sprint("c", round)) {
			o.run(&l)
		}
		<-time.After(ticks(o.rng, 1, 4))
	}
}

// anyProcess returns a random process; nil = the run is over.
func (o *outsider) anyProcess() (p *process) {
	o.step("balance", func() { p = o.world.processes[o.rng.IntN(len(o.world.processes))] })
	return p
}

// send makes a call up to tries times, each time to a random process, and reports whether one of them answered.
func (o *outsider) send(tries int, call func(p *process) error) bool {
	for range tries {
		p := o.anyProcess()
		if p == nil {
			return false
		}
		if call(p) == nil {
			return true
		}
		<-time.After(2 * grid)
	}
	return false
}

func (o *outsider) claim(id string) (leases []job.Lease) {
	e := job.Elsewhere{Worker: o.name, ID: id, Queues: []string{job.MainQueue, otherQueue},
		ByName: o.number%2 > 0, Lease: ticks(o.rng, 5, 25), Low: math.Inf(-1)}
	partition, most, sent := o.rng.IntN(o.world.plan.partitions), 1+o.rng.IntN(3), 0
	numbers := o.rng.IntN(4) > 0 // not all workers number their repeats
	next := func() {
		if sent++; numbers {
			e.Repeat = sent - 1
		}
		e.Delivery = fmt.Sprint("d", sent)
	}
	ask := func(p *process) error {
		// A process repeats its call under the same delivery. A repeat of the worker is another call, with its own.
		if sent == 0 || o.rng.IntN(3) > 0 {
			next()
		}
		reply, err := p.queue.Claim(context.Background(), partition,
			job.ClaimRequest{Max: most, Bound: math.Inf(1), Elsewhere: &e})
		if err == nil {
			leases = reply.Leases
		}
		return err
	}
	if !o.send(4, ask) || o.rng.IntN(4) > 0 {
		return leases
	}
	// The answer reached its process and not the worker, who asks again. That process repeats its call and gives the
	// jobs back, both too late. Or a process that stood still makes the call only now.
	first, late := leases, e
	leases = nil
	if numbers && o.rng.IntN(2) == 0 {
		late.Delivery = "late"
	}
	next()
	if o.send(4, ask) && o.rng.IntN(2) == 0 {
		o.send(2, func(p *process) error {
			_, err := p.queue.Claim(context.Background(), partition,
				job.ClaimRequest{Max: most, Bound: math.Inf(1), Elsewhere: &late})
			return err
		})
	}
	for i := range first {
		o.send(2, func(p *process) error {
			_, err := p.queue.Release(context.Background(), partition, []job.Release{{LeaseRef: first[i].Ref()}})
			return err
		})
	}
	return leases
}

// run does with a job what its worker may do: it runs and beats, or is silent for too long, or dies; then it reports,
// and sometimes twice.
func (o *outsider) run(l *job.Lease) {
	o.step("begin", func() { o.world.shadow.beginsElsewhere(l) })
	ref, partition := l.Ref(), l.ID.Partition()
	switch what := o.rng.IntN(10); {
	case what == 0:
		return
	case what == 1:
		<-time.After(ticks(o.rng, 20, 45))
	case what <= 4:
		for beat := range 1 + o.rng.IntN(4) {
			<-time.After(ticks(o.rng, 2, 6))
			o.send(2, func(p *process) error {
				b := job.Beat{LeaseRef: ref, Timeout: ticks(o.rng, 5, 25)}
				if o.rng.IntN(2) == 0 {
					b.Save, b.Checkpoint = beat+1, fmt.Appendf(nil, "%d", beat)
				}
				if o.rng.IntN(2) == 0 {
					b.Step, b.Progress = int64(beat+1), job.NewProgress(int64(beat), 4, "a b")
				}
				_, err := p.queue.Heartbeat(context.Background(), partition, []job.Beat{b})
				return err
			})
			o.logs(ref, partition, beat)
		}
	default:
		<-time.After(ticks(o.rng, 0, 6))
	}
	report := o.report(ref, partition)
	for range 1 + o.rng.IntN(2) {
		o.send(3, report)
	}
}

// logs adds some lines, of which one may be missing.
func (o *outsider) logs(ref job.LeaseRef, partition, beat int) {
	var batch []job.LogEntry
	for n := range o.rng.IntN(3) {
		e := job.LogEntry{LeaseRef: ref, Number: 3*beat + n + 1, Level: "INFO", Text: "beat"}
		if o.rng.IntN(8) == 0 {
			e.Level = ""
		}
		batch = append(batch, e)
	}
	if len(batch) > 0 {
		o.send(2, func(p *process) error {
			_, err := p.queue.Log(context.Background(), partition, batch)
			return err
		})
	}
}

// report draws how an attempt ends.
func (o *outsider) report(ref job.LeaseRef, partition int) func(p *process) error {
	background := context.Background()
	switch delay := ticks(o.rng, 0, 8); o.rng.IntN(6) {
	case 0:
		return func(p *process) error {
			_, err := p.queue.Fail(background, partition, []job.Failure{{LeaseRef: ref, Cause: job.HandlerError, Delay: delay}})
			return err
		}
	case 1:
		return func(p *process) error {
			_, err := p.queue.Release(background, partition, []job.Release{{LeaseRef: ref, Returned: true}})
			return err
		}
	}
	text, _ := json.Marshal(result{ref.ID, ref.Attempt})
	return func(p *process) error {
		_, err := p.queue.CompleteElsewhere(background, partition, []job.Completion{{LeaseRef: ref, Result: text}})
		return err
	}
}

// elsewhere says whether the call is an outsider's.
func (c *call) elsewhere() bool {
	argv := c.args[min(c.keys, len(c.args)):]
	switch c.name {
	case "claim":
		return argv[1][0] == '~'
	case "complete", "fail", "heartbeat", "log":
		about, _ := ends(c.name, argv)
		return len(about) > 2 && about[2][:1] == outsiders
	}
	return false
}

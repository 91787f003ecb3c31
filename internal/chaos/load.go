package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/chaos/client"
	"github.com/tierq/tierq/internal/job"
)

// refusals is about how many submits one accepted submit takes: the other submits are refused while a store is
// away.
const refusals = 2.2

// newLoad makes the clients and starts to answer callbacks.
func (c *cluster) newLoad() (*client.Load, error) {
	mix := client.DefaultMix()
	if c.Mix != nil {
		mix = *c.Mix
	}
	if !c.Embedded {
		mix.Call = max(mix.Call, 0.3) // limitStays needs many jobs with a callback in the outbox
	}
	o := client.Options{
		Bases: c.bases, Runs: c.runs(), History: filepath.Join(c.dir, "history"), Jobs: c.Jobs,
		Rate: refusals * float64(c.Jobs) / c.Over.Seconds(), Seed: c.Seed, Mix: mix,
		MaxSleep: c.MaxSleep, KeyLife: keyLife,
		Outsiders: outsiders, WorkerKeys: c.workerKeys,
		Keys: c.keys, Admin: c.admin, Receiver: "http://" + c.callbacks.Addr().String() + "/ended",
	}
	if !c.Embedded {
		o.Faktory = c.faktory()
	}
	o.Schedules = client.Schedules{Key: c.scheduleKey, DB: c.db}
	if c.Clean {
		o.Rate /= refusals
		o.Schedules = client.Schedules{}
		o.Faktory = client.Faktory{}
		o.Outsiders = 0
		o.Mix = client.Mix{Once: mix.Once, Again: mix.Again, Batch: mix.Batch}
	}
	l, err := client.New(o)
	if err == nil {
		c.serve(l)
	}
	return l, err
}

// rest revives all servers, waits until the system is at rest, lets the outsiders end, and collects the evidence.
func (c *cluster) rest(ctx context.Context, load *client.Load, dismiss func()) (e check.Evidence,
	w check.Witness, err error) {
	if err := c.mend(ctx); err != nil {
		return e, w, err
	}
	e.Bound = restBound
	if c.Bound > 0 {
		e.Bound = c.Bound
	}
	e.Quiet = time.Now()
	c.say("the last fault is over")
	if err := load.EndSchedules(ctx, restBound/2); err != nil {
		return e, w, err
	}
	var left string
	if e.Rested, left = c.awaitRest(ctx, e.Bound); e.Rested.IsZero() {
		c.say("not at rest: %s", left)
	}
	dismiss()
	if err := load.Look(ctx, 2000); err != nil {
		return e, w, fmt.Errorf("last look: %w", err)
	}
	if err := c.collect(ctx, load, &e); err != nil {
		return e, w, err
	}
	if err := c.lookAtPlans(ctx); err != nil {
		return e, w, err
	}
	if c.Repair { // the stores were read before this pass, which repairs what it finds wrong
		c.pass(ctx, c.servers[0])
	}
	w, err = c.witness(ctx, load)
	return e, w, errors.Join(err, load.Close())
}

// witness returns what the clients and this program observed beside the evidence.
func (c *cluster) witness(ctx context.Context, load *client.Load) (w check.Witness, err error) {
	w = load.Witness()
	if w.Owners, err = client.ReadOwners(ctx, c.db); err != nil {
		return w, err
	}
	c.notes.Lock()
	defer c.notes.Unlock()
	b := &c.beside
	w.Looks, w.Passes, w.Stops = slices.Clone(b.Looks), slices.Clone(b.Passes), slices.Clone(b.Stops)
	w.Plans, w.Limits, w.Starts = slices.Clone(b.Plans), slices.Clone(b.Limits), slices.Clone(b.Starts)
	return w, nil
}

func (c *cluster) collect(ctx context.Context, load *client.Load, e *check.Evidence) (err error) {
	c.notes.Lock()
	e.Ops, e.Faults, e.Pauses = append(load.Ops(), c.ops...), slices.Clone(c.faults), slices.Clone(c.pauses)
	e.Holds = slices.Clone(c.holds)
	c.notes.Unlock()
	e.Polls, e.BatchesSeen = load.Polls(), load.BatchesSeen()
	e.Plans = map[job.Tier]job.Plan{}
	for _, p := range plans() {
		e.Plans[p.Tier] = p
	}
	for tier := range c.put {
		if _, first := e.Plans[tier]; !first {
			p := addedPlan
			p.Tier = tier
			e.Plans[tier] = p
		}
	}
	e.KeyLife, e.Outside, e.Lines = keyLife, outsideTimes, lineLimits()
	if e.Runs, err = client.ReadRuns(c.runs()); err != nil {
		return err
	}
	outside, calls := load.OutsideRuns()
	e.Runs, e.Calls = append(e.Runs, outside...), calls
	if err := client.ReadSQL(ctx, c.db, c.Journal || c.Embedded, e); err != nil {
		return err
	}
	if err := client.ReadBatches(ctx, c.db, e); err != nil {
		return err
	}
	if err := errors.Join(client.NamePushed(ctx, c.db, e), load.ReadSchedules(ctx, e)); err != nil {
		return err
	}
	if c.Clean {
		if err := client.ReadMetrics(ctx, c.bases(), c.admin, e); err != nil {
			return err
		}
	}
	if c.Embedded {
		return nil
	}
	return client.ReadRedis(ctx, c.rdb, c.Partitions, e)
}

// facts adds the facts of this run to the report: the lines of the table beside the verdict.
func (c *cluster) facts(ctx context.Context, report *check.Report, e *check.Evidence, w *check.Witness,
	took time.Duration) {
	report.Fact("seed", "%d", c.Seed)
	report.Fact("took", "%s, with %d servers", took.Round(time.Second), c.Servers)
	for _, program := range c.programs() {
		out, err := exec.CommandContext(ctx, program[0], program[1:]...).Output()
		if err != nil {
			out = []byte("unknown: " + err.Error()) // not in PATH; testkit found it elsewhere
		}
		report.Fact(program[0], "%s", strings.TrimSpace(firstLine(string(out))))
	}
	for _, line := range c.leftOut() {
		report.Fact("not walked, known red", "%s", line)
	}
	report.Fact("embedded, journal", "%t, %t", c.Embedded, c.Journal || c.Embedded)
	report.Fact("first starts killed", "%d", len(w.Starts))
	report.Fact("plans changed or added, retention", "%d, %s", len(c.put), c.Retention)
	report.Fact("keys used again", "%d before their time, %d after it", c.load.Soon.Load(), c.load.Later.Load())
	report.Fact("requeued jobs cancelled", "%d", c.load.Again.Load())
	report.Fact("partitions, capacity", "%d, %d", c.Partitions, c.Capacity)
	codes := map[string]int{}
	for i := range e.Ops {
		codes[e.Ops[i].Code]++
	}
	stands := 0
	for i := range e.Ops {
		if e.Ops[i].Unique.StandIn {
			stands++
		}
	}
	report.Fact("unique keys", "%d submits, %d answered with another job, %d refused", c.load.Unique.Load(), stands,
		codes["UNIQUE_TAKEN"])
	report.Fact("flows", "%d of four jobs", c.load.Flows.Load())
	batchFacts(report, e)
	c.occurrenceFacts(report, e)
	report.Fact("keys of lines", "%d submits", c.load.InLines.Load())
	c.full = codes["QUEUE_FULL"]
	report.Fact("refused for room, for a quota", "%d, %d", codes["QUEUE_FULL"], codes["RATE_LIMITED"])
	report.Fact("looks at the living Redis", "%d", len(w.Looks))
	report.Fact("passes of the servers' audit", "%d, they mended %d", len(w.Passes), w.Repairs())
	o := &c.load.Outside
	report.Fact("workers of other programs",
		"%d jobs claimed, %d calls; %d vanished, %d late, %d released, %d ended twice",
		o.Jobs.Load(), len(e.Calls), o.Vanished.Load(), o.Silent.Load(), o.Released.Load(), o.Twice.Load())
	report.Fact("their claims sent again", "%d without an answer, %d after one", o.Lost.Load(), o.Dropped.Load())
	f := &c.load.OverFaktory
	report.Fact("Faktory clients", "%d pushes, %d fetched; %d vanished, %d late, %d answers not awaited, %d ended twice",
		f.Pushed.Load(), f.Jobs.Load(), f.Vanished.Load(), f.Late.Load(), f.Dropped.Load(), f.Twice.Load())
	report.Fact("strangers, callbacks", "%d, %d", len(w.Strangers), len(w.Calls))
	for _, name := range slices.Sorted(maps.Keys(c.counts)) {
		t := c.counts[name]
		switch {
		case t.landed == 0:
			report.Fact(name, "never landed, missed %d times: %s", t.missed, t.missing)
		case t.missed > 0:
			report.Fact(name, "%d landed, %d missed", t.landed, t.missed)
		default:
			report.Fact(name, "%d landed", t.landed)
		}
	}
	for _, last := range slices.Sorted(maps.Keys(c.born)) {
		report.Fact("gave up starting", "%d times: %s", c.born[last], last)
	}
	c.judge(report)
}

// judge adds a violation for each number that the run has not reached: kills, kinds of fault, accepted jobs.
func (c *cluster) judge(report *check.Report) {
	for _, owed := range []struct {
		id, what  string
		got, want int
	}{
		{"F07", "kills", report.Kills, c.Kills}, {"F62", "kinds of fault", len(report.Landed), c.Kinds},
		{"F62", "jobs accepted", report.Counts.Accepted, c.Accepted},
	} {
		if owed.got < owed.want && (owed.what != "kinds of fault" || c.Only == nil) {
			what := fmt.Sprintf("%d %s, %d are wanted", owed.got, owed.what, owed.want)
			report.Violations = append(report.Violations, check.Violation{Invariant: owed.id, ID: "run", What: what})
		}
	}
	if c.Capacity == tight && c.Accepted > 0 && c.full == 0 {
		report.Violations = append(report.Violations,
			check.Violation{Invariant: "S9", ID: "run", What: fmt.Sprintf("there was always room, of %d", c.Capacity)})
	}
	if beyond := report.Counts.Beyond; c.Clean && beyond > 0 {
		report.Violations = append(report.Violations,
			check.Violation{Invariant: "F61", ID: "run", What: fmt.Sprintf("%d handlers started again", beyond)})
	}
}

// Command bench measures tierq against throwaway servers of its own: `make bench`, or `make bench ARGS="-run drain
// -runs 1"`. It prints the machine, the versions, the settings, every run and the medians. Absolute figures are good
// only beside others of the same run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
)

// options are the flags.
type options struct {
	only    *regexp.Regexp
	scale   float64
	runs    int
	profile string
}

// bench is one thing to measure. A run returns its figures, or an error if a count was wrong.
type bench struct {
	name, about string
	run         func(context.Context, *lab) ([]figure, error)
	asked       bool // runs only where -run names it: it takes many minutes
}

var benches = []bench{
	{"submit", "single submits over HTTP to a server process with role api (the load generator shares the cores)",
		func(ctx context.Context, l *lab) ([]figure, error) { return submitBench(ctx, l) }, false},
	{"journal", "the same with the accept journal on",
		func(ctx context.Context, l *lab) ([]figure, error) { return submitBench(ctx, l, "TIERQ_JOURNAL=on") }, true},
	{"client", "submits by the Go client to a server process with role api: as single requests, gathered, in batches",
		clientBench, false},
	{"drain", "queued no-op jobs, a server process with roles worker,recovery, rows in MariaDB", drainBench, false},
	{"embedded", "the same in embedded mode, in this process: miniredis and SQLite", embeddedBench, false},
	{"wakeup", "200 submits a second over HTTP, until the handler starts", wakeupBench, false},
	{"flood", "200 PAID submits a second of one key, in quiet and beside a flood of PUBLIC from another key, with a " +
		"rate and without", floodBench, false},
	{"memory", "Redis memory per job of 100 bytes of payload", memoryBench, false},
	{
		"processes",
		"1, 2 and 4 API processes, and as many worker processes of 100 slots, on one Redis and one MariaDB",
		processesBench,
		false,
	},
	{
		"growth",
		"two Redis beside one: whole lives by scripts, drains; and the order over several partitions",
		growthBench,
		false,
	},
	{
		"layout",
		"layouts of the jobs in Redis, batch 100, AOF everysec: Redis CPU per whole life and bytes per queued job",
		layoutBench,
		false,
	},
	{
		"queues",
		"claims over 1, 3 and 10 queues of the same jobs: what a claimed job costs inside the script",
		queuesBench,
		false,
	},
	{
		"lines",
		"lines: whole lives without a key and with 1 to 5,000 keys; claims where few and many jobs wait in lines",
		linesBench,
		false,
	},
	{
		"holds",
		"a flood of long jobs beside a tier with slots of its own: how long its jobs wait; and how soon a pause holds",
		holdsBench,
		false,
	},
	{
		"outside",
		"workers of other programs over HTTP beside the pool: drains, ends alone, claims that wait, pick-up",
		outsideBench,
		false,
	},
	{
		"faktory",
		"the gateway for Faktory's clients beside the server of Faktory, turn about: PUSH by 16 connections, FETCH and " +
			"ACK by 64",
		faktoryBench,
		false,
	},
	{
		"peers",
		"tierq and its peers on the same work, turn about: docs/speed/BENCH.md says what each measure is",
		peersBench,
		false,
	},
	{
		"depth",
		"what each thing that is asked of Redis costs it with 10,000 and with 1,000,000 jobs of each kind (waiting, " +
			"scheduled, ended), turn about",
		depthBench,
		true,
	},
	{
		"deep",
		"1, 5 and 10 million waiting jobs: rates of submit, claim, complete and acknowledge beside an empty queue, stalls, " +
			"memory; 6 GB of memory, 20 GB of disk",
		deepBench,
		true,
	},
	{
		"fragments",
		"what Redis holds of the machine's memory after a million jobs were drained and what is kept of them expired",
		fragmentsBench,
		true,
	},
	{
		"mix",
		"60 % PUBLIC in bursts, 30 % UNPAID, 10 % PAID, 5 % failing, 0.1 % hanging, at 70 % of this mix's own maximum: " +
			"what is held stays flat",
		mixBench,
		true,
	},
	{
		"dashboard",
		"5,000 jobs/s of that mix with nobody, one and twenty who look at the dashboard, turn about: what looking costs",
		dashboardBench,
		true,
	},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	o, err := parse(os.Args[1:])
	if err == nil {
		_, err = measure(ctx, o, os.Stdout)
	}
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	only := flags.String("run", ".",
		"a regular expression: which of "+names(false)+"; only by their own names: "+names(true))
	flags.Float64Var(&o.scale, "scale", 1, "1 = full, 0.01 = smoke")
	flags.IntVar(&o.runs, "runs", 3, "how often each is run")
	flags.StringVar(&o.profile, "profile", "",
		"a folder for CPU profiles of submit, drain, embedded and faktory; the server then runs inside this process")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	var err error
	if o.only, err = regexp.Compile(*only); err != nil {
		return o, fmt.Errorf("-run: %w", err)
	}
	if o.scale <= 0 || o.runs < 1 || flags.NArg() > 0 {
		return o, errors.New("-scale must be above 0, -runs at least 1, and there are no other arguments")
	}
	return o, nil
}

// names are the benches' names: of those that must be asked for, or of the others.
func names(asked bool) string {
	var list []string
	for _, b := range benches {
		if b.asked == asked {
			list = append(list, b.name)
		}
	}
	return strings.Join(list, ", ")
}

// measure runs the benches that were asked for and returns their figures by the bench's name. Whatever it started is
// stopped when it returns.
func measure(ctx context.Context, o options, out io.Writer) (results map[string]*table, err error) {
	l, err := newLab(o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	if err := l.describe(ctx, out); err != nil {
		return nil, err
	}
	results = map[string]*table{}
	for _, b := range benches {
		if !o.only.MatchString(b.name) || b.asked && o.only.String() != b.name {
			continue
		}
		fmt.Fprintf(out, "\n%s: %s\n", b.name, b.about)
		t := newTable()
		l.report = func(out io.Writer, t *table) { t.write(out) }
		for l.turn = range o.runs {
			figures, err := b.run(ctx, l)
			if err != nil {
				return nil, fmt.Errorf("%s, run %d: %w", b.name, l.turn+1, err)
			}
			t.add(figures)
		}
		l.report(out, t)
		results[b.name] = t
	}
	return results, nil
}

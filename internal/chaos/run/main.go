// Command run breaks tierq: `make chaos`, or `make chaos ARGS="-long -seed 7"`. It starts servers and stores of
// its own, puts them under load, injects faults and reports which promises were broken. It exits with 1 if any
// was.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"github.com/tierq/tierq/internal/chaos"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	broken, err := work(ctx, os.Args[1:])
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
	}
	if err != nil || broken {
		os.Exit(1)
	}
}

// asked holds the parsed flags.
type asked struct {
	chaos.Options
	mutations bool
}

func work(ctx context.Context, args []string) (broken bool, err error) {
	a, err := parse(args)
	if err != nil {
		return false, err
	}
	if a.mutations {
		return false, chaos.Mutations(ctx, os.Stdout, a.Only, a.KnownRed)
	}
	report, err := chaos.Run(ctx, a.Options)
	if err != nil {
		return false, err
	}
	fmt.Println()
	report.Table(os.Stdout)
	return len(report.Violations) > 0, nil
}

// parse reads the flags: first the size (-short, -long or -clean), then the flags that change it.
func parse(args []string) (a asked, err error) {
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.Bool("short", false, "about a minute, at least 20 kills (the default)")
	long := flags.Bool("long", false, "about half an hour, at least 500 kills, 100,000 jobs")
	clean := flags.Bool("clean", false, "no faults: every handler starts exactly once; 100,000 jobs")
	seed := flags.Uint64("seed", uint64(time.Now().UnixNano()), "decides which faults come, in which order")
	jobs := flags.Int("jobs", 0, "how many jobs are submitted")
	over := flags.Duration("for", 0,
		"how long the load takes, and with it the faults; of -jobs, -kills and -kinds such a run wants only what is said")
	kinds := flags.Int("kinds", 0, "how many kinds of fault land at least")
	partitions := flags.Int("partitions", 0, "TIERQ_PARTITIONS; 0: the seed says, 1 or 2")
	capacity := flags.Int("capacity", 0, "TIERQ_CAPACITY; 0: the seed says, 50 in one run of four, with 3 workers a server")
	retention := flags.Duration("retention", -1, "TIERQ_RETENTION and TIERQ_FAILED_RETENTION; else 1m, and 0 now and then")
	kills := flags.Int("kills", 0, "how many processes are killed at least")
	journal := flags.Bool("journal", false, "TIERQ_JOURNAL=on, and with it the faults after which Redis forgets")
	embedded := flags.Bool("embedded", false, "one server with its stores in itself, killed again and again")
	red := flags.String("known-red", "", "a regular expression: which known red walks are made all the same; . = all")
	only := flags.String("only", "",
		"a regular expression: which kinds of fault, by number and text; or which mutations, by name")
	binary := flags.String("binary", "", "a tierq built with the tag failpoint; else it is built")
	quiet := flags.Bool("quiet", false, "only the table")
	flags.BoolVar(&a.mutations, "mutations", false, "seed bugs into copies of the tree; the checker has to catch each")
	if err := flags.Parse(args); err != nil {
		return a, err
	}
	if flags.NArg() > 0 || *long && *clean || *embedded && (*clean || *journal) {
		return a, errors.New("no arguments beside the flags; -long excludes -clean; -embedded excludes -clean and -journal")
	}
	switch {
	case *embedded:
		a.Options = chaos.Inside()
		if *long {
			*over = cmp.Or(*over, 30*time.Minute)
		}
		if *over > 0 {
			a.Gap, a.Jobs = chaos.InsideGap, chaos.JobsFor(*over)
		}
	case *long:
		a.Options = chaos.Long()
	case *clean:
		a.Options = chaos.Undisturbed()
	default:
		a.Options = chaos.Short()
	}
	a.Seed, a.Journal, a.Binary, a.Partitions, a.Capacity = *seed, *journal, *binary, cmp.Or(*partitions, a.Partitions),
		cmp.Or(*capacity, a.Capacity)
	if *retention >= 0 {
		a.Retention, a.KeepNone = *retention, *retention == 0
	}
	if *over > 0 {
		a.Over, a.Kills, a.Kinds, a.Accepted = *over, 0, 0, 0
	}
	if *jobs > 0 {
		a.Jobs, a.Accepted = *jobs, *jobs*95/100 // a job can be accepted without the client learning it
	}
	a.Kills, a.Kinds = cmp.Or(*kills, a.Kills), cmp.Or(*kinds, a.Kinds)
	if *only != "" {
		if a.Only, err = regexp.Compile(*only); err != nil {
			return a, fmt.Errorf("-only: %w", err)
		}
	}
	if *red != "" {
		if a.KnownRed, err = regexp.Compile(*red); err != nil {
			return a, fmt.Errorf("-known-red: %w", err)
		}
	}
	if !*quiet {
		a.Verbose = os.Stdout
	}
	return a, nil
}

// Command run fuzzes tierq: `make fuzz`, or `make fuzz ARGS="-time 1m -run Body"`. It fuzzes one target after the
// other for the same time and prints a table of the results. A text that breaks a promise is kept below its
// package's testdata/fuzz: repair the code, and leave the text there as a seed. The command exits with 1 if there
// was such a text.
package main

import (
	"bytes"
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
	"text/tabwriter"
	"time"

	"github.com/tierq/tierq/internal/fuzz"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	crashed, err := work(ctx, os.Args[1:])
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
	}
	if err != nil || crashed {
		os.Exit(1)
	}
}

func work(ctx context.Context, args []string) (crashed bool, err error) {
	flags := flag.NewFlagSet("fuzz", flag.ContinueOnError)
	each := flags.Duration("time", 30*time.Second, "how long each target is fuzzed")
	only := flags.String("run", "", "a regular expression: only the targets whose name it matches")
	verbose := flags.Bool("v", false, "show what go test says meanwhile")
	if err := flags.Parse(args); err != nil {
		return false, err
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return false, fmt.Errorf("-run: %w", err)
	}
	targets, err := fuzz.Targets(".")
	if err != nil {
		return false, err
	}
	var results []fuzz.Result
	for _, t := range targets {
		if !wanted.MatchString(t.Name) {
			continue
		}
		var said bytes.Buffer
		log := io.Writer(&said)
		if *verbose {
			log = os.Stderr
		}
		fmt.Fprintf(os.Stderr, "%s for %s\n", t.Name, *each)
		r, err := fuzz.Run(ctx, t, *each, log)
		if err != nil {
			table(results)
			return false, err
		}
		if len(r.Crashes) > 0 {
			crashed = true
			_, _ = said.WriteTo(os.Stderr)
		}
		results = append(results, r)
	}
	table(results)
	return crashed, nil
}

func table(results []fuzz.Result) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "target\tpackage\texecutions\tnew inputs\tcrashes")
	var executions, found, crashes int64
	for _, r := range results {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\n", r.Name, r.Dir, r.Executions, r.New, orNone(r.Crashes))
		executions, found, crashes = executions+r.Executions, found+r.New, crashes+int64(len(r.Crashes))
	}
	fmt.Fprintf(w, "%d targets\t\t%d\t%d\t%d\n", len(results), executions, found, crashes)
	_ = w.Flush()
}

func orNone(crashes []string) string {
	if len(crashes) == 0 {
		return "none"
	}
	return strings.Join(crashes, " ")
}

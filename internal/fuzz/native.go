package fuzz

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Result is what Go's fuzzer made of one target.
type Result struct {
	Target
	Executions int64
	New        int64    // inputs that reached code which none had reached before; Go keeps them in its build cache
	Crashes    []string // the files that it wrote below testdata/fuzz, or, without one, its last words
}

var (
	progress = regexp.MustCompile(`execs: (\d+) .*new interesting: (\d+)`)
	written  = regexp.MustCompile(`Failing input written to (\S+)`)
)

// starved are the fuzzer's words where its time was over while it waited for a worker of its own, as on a busy machine:
// no input is to blame.
const starved = "context deadline exceeded"

// Run fuzzes one target for a time; Go stops at the first crash. What it says goes to log. An error means that it could
// not be run.
func Run(ctx context.Context, t Target, d time.Duration, log io.Writer) (Result, error) {
	r := Result{Target: t}
	fuzzing := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-fuzz", "^"+t.Name+"$", "-fuzztime", d.String(), ".")
	fuzzing.Dir = t.Dir
	out, err := fuzzing.StdoutPipe()
	if err != nil {
		return r, fmt.Errorf("fuzz %s: %w", t.Name, err)
	}
	fuzzing.Stderr = fuzzing.Stdout
	if err := fuzzing.Start(); err != nil {
		return r, fmt.Errorf("fuzz %s: %w", t.Name, err)
	}
	last, late := r.read(out, log)
	err = fuzzing.Wait()
	switch {
	case ctx.Err() != nil:
		return r, ctx.Err()
	case late && len(r.Crashes) == 0:
		return r, nil
	case err != nil && len(r.Crashes) == 0 && r.Executions == 0:
		return r, fmt.Errorf("fuzz %s: %w: %s", t.Name, err, last)
	case err != nil && len(r.Crashes) == 0:
		r.Crashes = []string{last}
	}
	return r, nil
}

// read takes what the fuzzer says, and returns its last words, and whether it was starved.
func (r *Result) read(out io.Reader, log io.Writer) (last string, late bool) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		text := lines.Text()
		fmt.Fprintln(log, text)
		if m := progress.FindStringSubmatch(text); m != nil {
			r.Executions, _ = strconv.ParseInt(m[1], 10, 64)
			r.New, _ = strconv.ParseInt(m[2], 10, 64)
		}
		if m := written.FindStringSubmatch(text); m != nil {
			r.Crashes = append(r.Crashes, m[1])
		}
		late = late || strings.TrimSpace(text) == starved
		if words := strings.TrimSpace(text); words != "" && words != "FAIL" && !strings.HasPrefix(words, "FAIL\t") {
			last = words
		}
	}
	return last, late
}

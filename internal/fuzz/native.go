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

// Result is the result of Go's fuzzer for one target.
type Result struct {
	Target
	Executions int64
	New        int64    // inputs that reached new code; Go keeps them in its build cache
	Crashes    []string // the files that it wrote below testdata/fuzz, or its last line if it wrote none
}

var (
	progress = regexp.MustCompile(`execs: (\d+) .*new interesting: (\d+)`)
	written  = regexp.MustCompile(`Failing input written to (\S+)`)
)

// starved is what the fuzzer prints if its time ended while it waited for one of its workers, as on a busy
// machine. No input is the cause.
const starved = "context deadline exceeded"

// Run fuzzes one target for d. Go stops at the first crash. The fuzzer's output goes to log. An error means that
// the target could not be run, or that ctx ended.
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

// read copies the fuzzer's output to log and takes the numbers from it. It returns the last line that says
// something, and whether the fuzzer was starved.
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

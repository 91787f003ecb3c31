package queue

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tierq/tierq/internal/job"
)

// about returns the part of a job's head that scripts do not read: type, owner, trace and, if there are any,
// options. Type, owner and trace contain no space.
func about(typ, owner, trace string, o job.Options) string {
	text := typ + " " + dash(owner) + " " + dash(trace)
	if o != (job.Options{}) {
		text += " " + o.Text()
	}
	return text
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func undash(s string) string {
	if s == "-" {
		return ""
	}
	return s
}

// readHead fills in the fields that a job's head holds: "tier generation max_retries arrived score type owner
// trace [options]".
func readHead(head string, j *job.Job) error {
	f := strings.SplitN(head, " ", 9)
	if len(f) < 8 {
		return fmt.Errorf("head of %s has %d parts: %q", j.ID, len(f), head)
	}
	var err error
	if j.Generation, err = strconv.Atoi(f[1]); err != nil {
		return fmt.Errorf("head of %s: %w", j.ID, err)
	}
	if j.MaxRetries, err = strconv.Atoi(f[2]); err != nil {
		return fmt.Errorf("head of %s: %w", j.ID, err)
	}
	j.Tier, j.ArrivedAt = job.Tier(f[0]), msTime(f[3])
	j.Type, j.Owner, j.TraceID = f[5], undash(f[6]), undash(f[7])
	if len(f) == 9 {
		if j.Options, err = job.ReadOptions(f[8]); err != nil {
			return fmt.Errorf("head of %s: %w: %w", j.ID, errOptions, err)
		}
	}
	return nil
}

// generationOf returns the generation in a head, 0 for a text that is not a head.
func generationOf(head string) int {
	_, rest, _ := strings.Cut(head, " ")
	generation, _, _ := strings.Cut(rest, " ")
	return number(generation)
}

// errOptions means that the head could be read except for its options.
var errOptions = errors.New("its options cannot be read")

// readAttempt reads a line of a job's history: "attempt started finished outcome worker error". The error of a
// LATER is "until reason"; earlier builds left it empty.
func readAttempt(line string, generation int) (job.Attempt, error) {
	f := strings.SplitN(line, " ", 6)
	if len(f) != 6 {
		return job.Attempt{}, fmt.Errorf("attempt of %d parts: %q", len(f), line)
	}
	n, err := strconv.Atoi(f[0])
	if err != nil {
		return job.Attempt{}, fmt.Errorf("attempt: %w", err)
	}
	a := job.Attempt{
		Number: n, Generation: generation, StartedAt: msTime(f[1]), FinishedAt: msTime(f[2]), Outcome: f[3], Worker: f[4],
		Error: f[5],
	}
	if a.Outcome == "LATER" {
		var until string
		until, a.Error, _ = strings.Cut(a.Error, " ")
		a.Until = msTime(until)
	}
	return a, nil
}

// holder returns the process in a lease's token, <nonce>:<claim number>.
func holder(token string) string {
	if i := strings.LastIndexByte(token, ':'); i >= 0 {
		return token[:i]
	}
	return ""
}

// number converts a count; "" is 0.
func number(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// payload returns nil, not an empty slice, for an empty text.
func payload(text string) []byte {
	if text == "" {
		return nil
	}
	return []byte(text)
}

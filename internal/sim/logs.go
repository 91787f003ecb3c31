package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tierq/tierq/internal/job"
)

// What a job's handlers told beside its result: how far the attempt is, and lines of a log. A log has the lines of
// holders only, each once and in their order, and says which are missing. What SQL gets is what Redis had.

// tale is what the shadow knows of that.
type tale struct {
	step  int64  // of the progress of the attempt that runs, or that ended the job
	done  string // what the progress says; "" = nothing was told
	lines []string
	bytes int
}

// untold forgets the progress of an attempt after which the job waits again.
func (k *known) untold() {
	if !k.status.Ended() {
		k.step, k.done = 0, ""
	}
}

// tells handles the progress in a heartbeat of the holder.
func (k *known) tells(step int64, progress string) {
	if step > k.step {
		k.step, k.done = step, progress
	}
}

// log handles lines.
func (s *shadow) log(argv, texts []string) {
	for i := 0; i < len(argv); i += 6 {
		e, k, want := argv[i:i+6], s.jobs[job.ID(argv[i])], job.Lost
		if k != nil && k.holds(e[2], e[1]) {
			want = job.OK
			k.adds(e, s.w.ms())
		}
		if job.Word(texts[i/6]) != want {
			s.wrong("S5", "%s: a line of %s, attempt %s is answered with %s, not %s", e[0], e[2], e[1], texts[i/6], want)
		}
	}
}

// adds adds a line, and before it a line for those that are missing.
func (k *known) adds(e []string, now int64) {
	last := int64(0)
	if n := len(k.lines); n > 0 && strings.HasPrefix(k.lines[n-1], e[1]+" ") {
		last = number(strings.Fields(k.lines[n-1])[1])
	}
	n := number(e[3])
	if n == 0 {
		n = last + 1
	}
	if n <= last {
		return
	}
	add := func(n int64, rest string) {
		line := fmt.Sprintf("%s %d %d %s", e[1], n, now-number(e[4]), rest)
		k.lines = append(k.lines, line)
		k.bytes += len(line)
		k.weight += len(line)
	}
	missing := n - last - 1
	if e[5] == "" {
		missing++
	}
	if missing > 0 {
		count := strconv.FormatInt(missing, 10)
		add(last+missing, fmt.Sprint("GAP ", len(count), " ", count))
	}
	if e[5] != "" {
		add(n, e[5])
	}
}

// taken checks what the outbox hands out of a job's log and of its progress. It returns the history behind the log.
func (s *shadow) taken(k *known, texts []string) (history []string) {
	n := int(number(texts[3]))
	lines, history := texts[4:4+n], texts[4+n:]
	if k == nil {
		return history
	}
	if !slices.Equal(lines, k.lines) {
		s.wrong("S2", "%s: SQL gets the log %q, not %q", k, lines, k.lines)
	}
	_, progress, _ := strings.Cut(strings.SplitN(texts[1], "\n", 4)[2], " progress=")
	if f := strings.SplitN(progress, ":", 3); k.done != f[len(f)-1] {
		s.wrong("S2", "%s: SQL gets the progress %q, not %q", k, progress, k.done)
	}
	return history
}

// bare returns a lease without what its holder told since the claim.
func bare(lease string) string {
	lease, _, _ = strings.Cut(lease, " progress=")
	lease, _, _ = strings.Cut(lease, " log=")
	return lease
}

// logIn returns the bytes of the log that a lease tells of.
func logIn(lease string) (bytes int) {
	if _, log, ok := strings.Cut(lease, " log="); ok {
		_, _ = fmt.Sscanf(log, "%d", &bytes)
	}
	return bytes
}

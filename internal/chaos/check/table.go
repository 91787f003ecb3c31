package check

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// shown is how many violations of one invariant a table prints.
const shown = 5

// Fact adds a line to the head of the table.
func (r *Report) Fact(name, format string, args ...any) {
	r.Facts = append(r.Facts, Fact{name, fmt.Sprintf(format, args...)})
}

// Table prints the facts and sums of a run, and then its violations.
func (r *Report) Table(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name string, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	c := r.Counts
	for _, f := range r.Facts {
		row(f.Name, "%s", f.Value)
	}
	row("accepted", "%d", c.Accepted)
	row("requeued", "%d", c.Requeued)
	row("completed", "%d", c.Completed)
	row("failed", "%d", c.Failed)
	row("cancelled", "%d", c.Cancelled)
	row("refused", "%d (%d withdrawn for want of a journal row)", c.Refused, c.Withdrawn)
	if c.Revived > 0 {
		row("withdrawn, and run", "%d, after Redis had lost the withdrawal", c.Revived)
	}
	if c.Thawed > 0 {
		row("arrived late", "%d, when a frozen server went on", c.Thawed)
	}
	row("unknown", "%d, of which %d were taken", c.Unknown, c.UnknownExist)
	row("callbacks", "%d", c.Callbacks)
	row("lost", "%d", c.Lost)
	if c.Forgotten > 0 {
		row("forgotten with Redis", "%d (the journal was off)", c.Forgotten)
	}
	if c.Unheard > 0 {
		row("reports refused that had counted", "%d", c.Unheard)
	}
	if c.Replaced > 0 {
		row("ends replaced", "%d, by the first end, which Redis had lost before SQL had it", c.Replaced)
	}
	row("doubled outcomes", "%d", c.Doubled)
	row("executions", "%d", c.Executions)
	row("beyond the first", "%d, of which %d unexplained", c.Beyond, c.Unexplained)
	for _, why := range slices.SortedFunc(maps.Keys(r.Explained), compareNames) {
		row("  by "+why, "%d", r.Explained[why])
	}
	row("kills", "%d", r.Kills)
	landed := 0
	for _, n := range r.Landed {
		landed += n
	}
	row("faults landed", "%d of %d kinds", landed, len(r.Landed))
	for _, kind := range slices.SortedFunc(maps.Keys(r.Landed), compareNames) {
		row("  "+kind, "%d", r.Landed[kind])
	}
	row("crash to taken back (L2)", "%s", r.Crashed)
	row("start to stopped (L3)", "%s", r.Stuck)
	if r.Rest < 0 {
		row("time to rest (L1)", "never")
	} else {
		row("time to rest (L1)", "%s", r.Rest.Round(time.Millisecond))
	}
	row("violations", "%d", len(r.Violations))
	_ = t.Flush()
	r.spell(w)
}

// spell prints the first violations of each invariant.
func (r *Report) spell(w io.Writer) {
	seen := map[string]int{}
	for _, v := range r.Violations {
		if seen[v.Invariant]++; seen[v.Invariant] <= shown {
			fmt.Fprintf(w, "%s\n", v)
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(seen), compareNames) {
		if n := seen[name] - shown; n > 0 {
			fmt.Fprintf(w, "%s: %d more\n", name, n)
		}
	}
}

func (d Delays) String() string {
	if d.N == 0 {
		return "none"
	}
	return fmt.Sprintf("%d times, 95%% within %s, at most %s; %d without another fault", d.N,
		d.P95.Round(time.Millisecond), d.Max.Round(time.Millisecond), d.Quiet)
}

// compareNames orders L1, S2, S10: by letter, then by number.
func compareNames(x, y string) int {
	letter := func(s string) string { return strings.TrimRight(s, "0123456789") }
	number := func(s string) int { n, _ := strconv.Atoi(strings.TrimPrefix(s, letter(s))); return n }
	return cmp.Or(cmp.Compare(letter(x), letter(y)), cmp.Compare(number(x), number(y)), cmp.Compare(x, y))
}

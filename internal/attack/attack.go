// Package attack tries the attacks of docs/proof/ATTACKS.md on a running server, over the network, as a hostile
// caller would: `make attack`.
package attack

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// Verdict is how an attack ended.
type Verdict string

// These are the verdicts.
const (
	Held   Verdict = "held"
	Broken Verdict = "BROKEN"
	// Absent: the attack cannot be tried over the network on a running server. Why names the test that tries it.
	Absent Verdict = "not here"
)

// Attack is one row of docs/proof/ATTACKS.md.
type Attack struct {
	ID   string
	What string

	try  func(ctx context.Context, t *Target, x *trial)
	why  string // why it is not tried here, with the test that tries it
	last bool   // afterwards the server limits this address for some seconds
	slow bool   // most of its time is waiting
}

// Result is the outcome of an attack.
type Result struct {
	Attack
	Verdict Verdict
	Sent    string // what was sent, in few words
	Back    string
	Why     string // what is broken, or why the attack is not tried here
	Took    time.Duration
}

// bound is how long one attack may take. patience is how long an honest caller waits meanwhile.
const (
	bound    = 45 * time.Second
	patience = 2 * time.Second
)

// All returns the attacks in the order of their ids.
func All() []Attack {
	var all []Attack
	for _, family := range [][]Attack{callers(), bodies(), limits(), connections(), edges(), injection(), outgoing(),
		faktory(), elsewhere()} {
		all = append(all, family...)
	}
	slices.SortFunc(all, func(a, b Attack) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// Sweep makes all attacks for which wanted is true. Slow attacks run beside the others. The attacks after which
// the server limits this address come last. Sweep calls began before each attack, from several goroutines.
func (t *Target) Sweep(ctx context.Context, wanted func(Attack) bool, began func(Attack)) []Result {
	var mu sync.Mutex
	var results []Result
	try := func(a Attack) {
		began(a)
		r := t.Try(ctx, a)
		mu.Lock()
		defer mu.Unlock()
		results = append(results, r)
	}
	var slow sync.WaitGroup
	rounds := [2][]Attack{}
	for _, a := range All() {
		switch {
		case !wanted(a):
		case a.slow:
			slow.Go(func() { try(a) })
		case a.last:
			rounds[1] = append(rounds[1], a)
		default:
			rounds[0] = append(rounds[0], a)
		}
	}
	for _, a := range slices.Concat(rounds[0], rounds[1]) {
		try(a)
	}
	slow.Wait()
	slices.SortFunc(results, func(a, b Result) int { return cmp.Compare(a.ID, b.ID) })
	return results
}

// Try makes one attack and checks that an honest caller is still served afterwards.
func (t *Target) Try(ctx context.Context, a Attack) Result {
	if a.try == nil {
		return Result{Attack: a, Verdict: Absent, Why: a.why}
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	begun := time.Now()
	x := &trial{target: t}
	a.try(ctx, t, x)
	x.served(ctx)
	r := x.result()
	r.Attack, r.Took = a, time.Since(begun)
	return r
}

// Table prints the results and returns how many attacks were broken.
func Table(out io.Writer, results []Result) (broken int) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "id\tattack\tsent\tcame back\ttook\tverdict")
	counts := map[Verdict]int{}
	var words []string
	for _, r := range results {
		counts[r.Verdict]++
		verdict := string(r.Verdict)
		if r.Verdict == Absent {
			verdict += ": " + r.Why
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.1fs\t%s\n", r.ID, r.What, r.Sent, r.Back, r.Took.Seconds(), verdict)
		if r.Verdict == Broken {
			words = append(words, r.ID+" "+r.What+": "+r.Why)
		}
	}
	_ = w.Flush() // the output is for people
	fmt.Fprintf(out, "\n%d held, %d broken, %d not here\n", counts[Held], counts[Broken], counts[Absent])
	if len(words) > 0 {
		fmt.Fprintf(out, "\n%s\n", strings.Join(words, "\n"))
	}
	return counts[Broken]
}

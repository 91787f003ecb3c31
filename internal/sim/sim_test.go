package sim

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

var (
	seeds  = flag.Int("seeds", 200, "how many seeds TestSimulation plays")
	first  = flag.Uint64("first", 0, "the first of them")
	shards = flag.Int("shards", 2, "how many seeds at a time")
	only   = flag.Int64("seed", -1, "play this one, and print every call")
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // a world is small and soon garbage
	goleak.VerifyTestMain(m)
}

// play runs one seed in its own bubble.
func play(t *testing.T, seed uint64, o Options) (r Report) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { r = Run(seed, o) })
	return r
}

// sum adds up the reports of many runs.
type sum struct {
	seeds, calls, jobs int
	lasted             time.Duration
	faults             map[string]int
	violations         []string
}

func (s *sum) add(r Report) {
	s.seeds++
	s.calls += r.Calls
	s.jobs += r.Jobs
	s.lasted += r.Lasted
	for f, n := range r.Faults {
		s.faults[f] += n
	}
	if r.Violation != "" {
		s.violations = append(s.violations, fmt.Sprintf("seed %d: %s", r.Seed, r.Violation))
	}
}

func (s *sum) String() string {
	var all int
	var kinds []string
	for _, f := range slices.Sorted(maps.Keys(s.faults)) {
		all += s.faults[f]
		kinds = append(kinds, fmt.Sprintf("%s %d", f, s.faults[f]))
	}
	return fmt.Sprintf("%d seeds, %d jobs, %d calls in %s of virtual time, %d faults (%s), %d violations",
		s.seeds, s.jobs, s.calls, s.lasted.Round(time.Second), all, strings.Join(kinds, ", "), len(s.violations))
}

// TestSimulation plays -seeds seeds, or a single one with its whole trace: go test ./internal/sim -run
// TestSimulation -v -seed 7. It checks S1 to S16, S18, S19, S24 to S27, L1 to L3, L7 and X2. Its faults are those of
// F01..F07, F09..F14, F20, F21, F24..F28, F36, F40, F46, F47 and F56, as far as a failed call can stand for them.
func TestSimulation(t *testing.T) {
	t.Attr("proves", "S2-S5 S12 S14 L1 F07 F27")
	t.Parallel()
	if *only >= 0 {
		r := play(t, uint64(*only), Options{Trace: true})
		fmt.Fprintln(os.Stdout, strings.Join(r.Trace, "\n"))
		if r.Violation != "" {
			t.Error(r.Violation)
		}
		return
	}
	began := time.Now()
	s := sum{faults: map[string]int{}}
	var mu sync.Mutex
	t.Run("shards", func(t *testing.T) {
		for shard := range *shards {
			t.Run(strconv.Itoa(shard), func(t *testing.T) {
				t.Parallel()
				for i := shard; i < *seeds; i += *shards {
					r := play(t, *first+uint64(i), Options{})
					mu.Lock()
					s.add(r)
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("%s, %.0f seeds a minute", &s, float64(s.seeds)/time.Since(began).Minutes())
	for _, v := range s.violations {
		t.Error(v + " (-seed shows every call)")
	}
}

// Two runs of a seed agree in every call, argument, answer and time. The server's own way to run scripts gives the
// same run as the shortcut of the store.
func TestReplay(t *testing.T) {
	t.Parallel()
	all := []uint64{55, 56, 90, 171} // in these, a patience and a timeout once ended at the same instant
	for i := range uint64(20) {
		all = append(all, 1000+i)
	}
	for i, seed := range all {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			groups := i >= 14 // with batches and flows
			a := play(t, seed, Options{Batches: groups, Flows: groups})
			b := play(t, seed, Options{Batches: groups, Flows: groups, Trace: true, OwnEngine: i%8 == 0})
			if a.Hash != b.Hash {
				t.Errorf("seed %d: %d calls, and again %d, not the same", seed, a.Calls, b.Calls)
			}
		})
	}
}

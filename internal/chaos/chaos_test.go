package chaos

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testkit.Main(m)) }

// Three servers and their stores break no promise under at least 20 kills and every fault that fits into half a
// minute. The seed is new each time and is printed. `make chaos ARGS="-seed n"` repeats its faults, but not their
// exact moments. Half of the runs have the journal (`-journal`), half of them two partitions, and one in four a
// capacity of 50.
func TestChaos(t *testing.T) {
	t.Attr("proves", "F07")
	t.Parallel()
	testkit.Calm(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var told bytes.Buffer
	o := Short()
	o.Seed, o.Verbose = uint64(time.Now().UnixNano()), &told
	o.Journal = rand.New(rand.NewPCG(o.Seed, 700)).IntN(2) == 0
	report, err := Run(ctx, o)
	if err != nil {
		t.Fatalf("%v\n%s", err, told.String())
	}
	report.Table(&told)
	if len(report.Violations) > 0 {
		t.Errorf("%d promises are broken", len(report.Violations))
	}
	if t.Failed() {
		t.Log(told.String())
		return
	}
	t.Logf("seed %d, journal %t: %d accepted, %d kills, %d kinds of fault, at rest after %s", o.Seed, o.Journal,
		report.Counts.Accepted, report.Kills, len(report.Landed), report.Rest)
}

// Without faults every handler starts exactly once, in the order of tiers and arrivals.
func TestClean(t *testing.T) {
	t.Attr("proves", "F61")
	testkit.Calm(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	o := Undisturbed()
	o.Seed, o.Jobs, o.Over, o.MaxSleep = 1, 600, 2*time.Second, 5*time.Millisecond
	report, err := Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if c := report.Counts; len(report.Violations) > 0 || c.Accepted < o.Jobs || c.Executions != c.Completed ||
		c.Beyond > 0 {
		var told bytes.Buffer
		report.Table(&told)
		t.Error(told.String())
	}
}

// Every bug of the table can be seeded: each text that it changes is in its file exactly once.
func TestMutationsFit(t *testing.T) {
	root, err := moduleRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutations {
		if _, err := m.apply(root); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		if (m.want == "") != (m.name == control) {
			t.Errorf("%s: %q has to object", m.name, m.want)
		}
	}
}

// A late rest alone does not catch a bug: an invariant that the bug breaks has to object.
func TestCaught(t *testing.T) {
	m := mutation{want: "S2 S14"}
	late, doubled := check.Violation{Invariant: "L1"}, check.Violation{Invariant: "S14", What: "x"}
	if v := m.caught([]check.Violation{late, {Invariant: "S1"}}); v != nil {
		t.Errorf("caught by %v", v)
	}
	if v := m.caught([]check.Violation{late, doubled}); v == nil || *v != doubled {
		t.Errorf("caught by %v", v)
	}
	if v := (&mutation{}).caught([]check.Violation{{}}); v != nil {
		t.Errorf("caught by %v", v)
	}
}

// The seed decides the options that are zero, with the wanted frequencies, and leaves the others as they are.
func TestDraw(t *testing.T) {
	two, full := 0, 0
	for seed := range uint64(200) {
		o := Options{Seed: seed}
		o.draw()
		if o.Partitions == 2 {
			two++
		}
		if o.Capacity == tight {
			full++
		}
		set := Options{Seed: seed, Partitions: 3, Capacity: 7}
		if set.draw(); set.Partitions != 3 || set.Capacity != 7 {
			t.Fatalf("drawn over what was said: %+v", set)
		}
	}
	if two < 70 || two > 130 || full < 25 || full > 80 {
		t.Errorf("of 200 runs %d have two partitions, %d are full", two, full)
	}
}

// A run with too few kills, kinds of fault or accepted jobs is a violation.
func TestJudge(t *testing.T) {
	c := &cluster{Options: Options{Kills: 2, Kinds: 1, Accepted: 10}}
	enough := func() check.Report {
		return check.Report{Kills: 2, Landed: map[string]int{"F01": 2}, Counts: check.Counts{Accepted: 10}}
	}
	for name, less := range map[string]func(*check.Report){
		"": func(*check.Report) {}, "kills": func(r *check.Report) { r.Kills = 1 },
		"kinds": func(r *check.Report) { r.Landed = nil },
		"jobs":  func(r *check.Report) { r.Counts.Accepted = 9 },
	} {
		r := enough()
		less(&r)
		if c.judge(&r); (len(r.Violations) > 0) != (name != "") {
			t.Errorf("%q: %v", name, r.Violations)
		}
	}
}

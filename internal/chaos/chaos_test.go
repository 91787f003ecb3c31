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

// Three servers and their stores are broken for half a minute in every way that fits in, at least 20 processes are
// killed, and no promise is broken. The seed is new each time, and printed: `make chaos ARGS="-seed n"` repeats its
// faults, if not their moments. Half of the runs have the journal (`-journal`), half of them two partitions, one in
// four hardly any room.
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

// Without faults every handler starts exactly once, and the better and the earlier job first.
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

// Every seeded bug can still be seeded: the texts that it changes are there.
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

// A late rest alone catches nothing: an invariant that the bug breaks has to object.
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

// The seed says what was left open, and each of it comes.
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

// What a run owes is told apart: too few jobs, kills or kinds are no proof.
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

package chaos

import (
	"bytes"
	"context"
	"regexp"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tierq/tierq/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testkit.Main(m)) }

// Three servers and their stores are broken for half a minute in every way that fits in, at least 20 processes are killed, and no promise is
// broken. The seed is new each time, and printed: `make chaos ARGS="-seed n"` repeats its faults, if not their moments.
func TestChaos_F07(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	var told bytes.Buffer
	o := Short()
	o.Seed, o.Verbose = uint64(time.Now().UnixNano()), &told
	report, err := Run(ctx, o)
	if err != nil {
		t.Fatalf("%v\n%s", err, told.String())
	}
	report.Table(&told)
	if len(report.Violations) > 0 {
		t.Errorf("%d promises are broken", len(report.Violations))
	}
	if report.Counts.Accepted < o.Jobs*9/10 || len(report.Landed) < o.Kinds {
		t.Errorf("%d jobs accepted, %d kinds of fault landed: that proves little", report.Counts.Accepted, len(report.Landed))
	}
	if t.Failed() {
		t.Log(told.String())
		return
	}
	t.Logf("seed %d: %d accepted, %d kills, %d kinds of fault, at rest after %s", o.Seed, report.Counts.Accepted, report.Kills, len(report.Landed), report.Rest)
}

// Without faults every handler starts exactly once, and the better and the earlier job first.
func TestClean_F61(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	o := Undisturbed()
	o.Seed, o.Jobs, o.Over, o.MaxSleep = 1, 1000, 3*time.Second, 5*time.Millisecond
	report, err := Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if c := report.Counts; len(report.Violations) > 0 || c.Accepted < o.Jobs || c.Executions != c.Completed || c.Beyond > 0 {
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
	}
}

// The checker objects to servers with a seeded bug. All of them are in the long suite; these are the ones that need faults and are found soon.
func TestMutations(t *testing.T) {
	t.Parallel()
	var told bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	err := Mutations(ctx, &told, regexp.MustCompile(tried))
	if err != nil {
		t.Error(err)
	}
	t.Log("\n" + told.String())
}

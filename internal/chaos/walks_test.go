package chaos

import (
	"bytes"
	"context"
	"regexp"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// An embedded server that is killed again and again breaks no promise, on all walks that are not in knownRed.
func TestEmbedded(t *testing.T) {
	t.Attr("proves", "F07")
	t.Parallel()
	testkit.Calm(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var lines bytes.Buffer
	o := Inside()
	o.Seed, o.Verbose, o.Over, o.Jobs = uint64(time.Now().UnixNano()), &lines, insideFor, JobsFor(insideFor)
	o.Kills, o.Kinds, o.Accepted = int(insideFor/(3*time.Second)), 1, o.Jobs/2
	o.Capacity = 10_000 // a few seconds of load need not meet a limit
	report, err := Run(ctx, o)
	if err != nil {
		t.Fatalf("%v\n%s", err, lines.String())
	}
	report.Table(&lines)
	if len(report.Violations) > 0 {
		t.Errorf("%d promises are broken\n%s", len(report.Violations), lines.String())
	}
}

// A run leaves out the walks of knownRed and reports them. With -known-red it makes the walks that match.
func TestKnownRed(t *testing.T) {
	t.Parallel()
	o, all := Options{}, Options{KnownRed: regexp.MustCompile(".")}
	if n := len(o.leftOut()); n != len(knownRed) || len(all.leftOut()) != 0 {
		t.Errorf("%d of %d are left out, and %q where all are asked for", n, len(knownRed), all.leftOut())
	}
	one := Options{KnownRed: regexp.MustCompile("^" + string(noRetention) + "$")}
	for _, red := range knownRed {
		if o.walks(red.walk) || !all.walks(red.walk) || one.walks(red.walk) != (red.walk == noRetention) {
			t.Errorf("%s: walked %t, where all are asked for %t", red.walk, o.walks(red.walk), all.walks(red.walk))
		}
	}
	if !o.walks("what nobody knows to be red") {
		t.Error("a walk that is not known to be red is left out")
	}
}

package testkit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// KnownRed passes only if the body fails with the expected text and with no other.
func TestKnownRedVerdicts(t *testing.T) {
	t.Parallel()
	const symptom = "it ran twice"
	for name, tc := range map[string]struct {
		body func(testing.TB)
		want string // part of the complaint; "" = red as expected
	}{
		"Error":        {func(t testing.TB) { t.Error("job 1:", symptom) }, ""},
		"Errorf":       {func(t testing.TB) { t.Errorf("job %d: it %s", 1, "ran twice") }, ""},
		"Fatal":        {func(t testing.TB) { t.Fatal(symptom); panic("Fatal came back") }, ""},
		"Fatalf":       {func(t testing.TB) { t.Fatalf("%s", symptom); panic("Fatalf came back") }, ""},
		"in a cleanup": {func(t testing.TB) { t.Cleanup(func() { t.Fatal(symptom) }) }, ""},
		"passes":       {func(testing.TB) {}, "no longer red: take it off the list"},
		"another text": {func(t testing.TB) { t.Fatal("no redis") }, `"no redis" does not contain "it ran twice"`},
		"both":         {func(t testing.TB) { t.Error(symptom); t.Error("and a leak") }, `"and a leak" does not contain`},
		"another cleanup": {func(t testing.TB) {
			t.Cleanup(func() { t.Error("a leak") })
			t.Fatal(symptom)
		}, `"a leak" does not contain`},
		"Fail":    {func(t testing.TB) { t.Fail() }, "red without a text"},
		"FailNow": {func(t testing.TB) { t.FailNow(); panic("FailNow came back") }, "red without a text"},
		"panics":  {func(testing.TB) { panic(symptom) }, "it panicked: it ran twice\ngoroutine "},
		"panics later": {func(t testing.TB) {
			t.Error(symptom)
			panic(errors.New("out of range"))
		}, "it panicked: out of range"},
		"cleanup panics":   {func(t testing.TB) { t.Cleanup(func() { panic("boo") }); t.Fatal(symptom) }, "it panicked: boo"},
		"skips":            {func(body testing.TB) { body.Skip("no", symptom) }, "it was skipped: no"},
		"ends without any": {func(testing.TB) { runtime.Goexit() }, "it ended its goroutine without a failure"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			complaint := runRed(t, tc.body).complaint(symptom)
			if (complaint == "") != (tc.want == "") || !strings.Contains(complaint, tc.want) {
				t.Errorf("complaint %q, want %q", complaint, tc.want)
			}
		})
	}
}

// A known-red body has the cleanups of any test. They see its failure, run after its context has ended, the last
// one first, and each runs even if an earlier one called Fatal.
func TestKnownRedCleanups(t *testing.T) {
	t.Parallel()
	var order []string
	r := runRed(t, func(t testing.TB) {
		dir := t.TempDir()
		for _, name := range []string{"first", "second"} {
			t.Cleanup(func() {
				_, err := os.Stat(dir)
				order = append(order, fmt.Sprint(name, t.Failed(), t.Context().Err(), err))
				t.Fatal("x")
			})
		}
		if t.Failed() || t.Context().Err() != nil {
			t.Error("failed before it began")
		}
		t.Fatal("x")
	})
	want := []string{"secondtrue context canceled <nil>", "firsttrue context canceled <nil>"}
	if fmt.Sprint(order) != fmt.Sprint(want) || len(r.failures) != 3 {
		t.Errorf("cleanups %q, want %q; failures %q", order, want, r.failures)
	}
}

// A known-red test whose body fails as expected passes, logs the failure and states its reason. Every other
// known-red test fails. This test runs such tests in a child process.
func TestKnownRed(t *testing.T) {
	if os.Getenv("TESTKIT_CHILD") == "known-red" {
		red := func(t testing.TB) { t.Fatal("it ran twice") }
		t.Run("red", func(t *testing.T) { KnownRed(t, "jobs run twice", red, "ran twice") })
		t.Run("mended", func(t *testing.T) { KnownRed(t, "jobs run twice", func(testing.TB) {}, "ran twice") })
		t.Run("unsaid", func(t *testing.T) { KnownRed(t, "", red, "ran twice") })
		return
	}
	t.Parallel()
	cmd := exec.Command(os.Args[0], "-test.v", "-test.run", "^TestKnownRed$")
	cmd.Env = append(os.Environ(), "TESTKIT_CHILD=known-red")
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Error("two of three failed, and the exit code is 0")
	}
	for _, want := range []string{
		`=== ATTR +TestKnownRed/red known-red jobs run twice\n`, `--- PASS: TestKnownRed/red `,
		`knownred_test.go:\d+: fails, as known: it ran twice`, `--- FAIL: TestKnownRed/mended `,
		`no longer red: take it off the list`, `--- FAIL: TestKnownRed/unsaid `, `says why it is red`,
	} {
		if !regexp.MustCompile(want).Match(out) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

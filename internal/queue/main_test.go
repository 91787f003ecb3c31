package queue_test

import (
	"flag"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
	"github.com/tierq/tierq/internal/testkit"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // the heap is small, and soon garbage
	// Flags on the command line override these values. Tests that wait for the shared cluster must not keep others
	// from running, so more of them run at once.
	for name, value := range map[string]string{
		"rapid.checks": stories, "rapid.nofailfile": "true", "test.parallel": strconv.Itoa(2 * runtime.GOMAXPROCS(0)),
	} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(testkit.Main(m))
}

// realClients opens clients of a real server.
func realClients(t *testing.T) queue.Clients {
	t.Helper()
	clients := queuetest.Connect(t, testkit.SharedRedisDB(t))
	return clients
}

// words compares a script's words, one per entry, with the expected ones.
func words(t *testing.T, got []job.Word, err error, want ...job.Word) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Fatalf("words %q, want %q", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("word %d is %s, want %s (all: %q)", i+1, got[i], want[i], got)
		}
	}
}

// ends is words for endings: an accepted ending has a time, a lost one has none.
func ends(t *testing.T, got []job.EndReply, err error, want ...job.Word) {
	t.Helper()
	plain := make([]job.Word, len(got))
	for i, g := range got {
		plain[i] = g.Word
		if g.At.IsZero() != (g.Word == job.Lost) {
			t.Errorf("%s at %v", g.Word, g.At)
		}
	}
	words(t, plain, err, want...)
}

// same compares two values.
func same[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// repeat returns a list of n equal words.
func repeat(w job.Word, n int) []job.Word {
	all := make([]job.Word, n)
	for i := range all {
		all[i] = w
	}
	return all
}

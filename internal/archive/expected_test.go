package archive

import (
	"fmt"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// Keys whose submits came to nothing do not pile up, and none is forgotten before its time.
func TestExpectedIsBounded(t *testing.T) {
	var e expected
	key := func(n int) job.KeyKept {
		return job.KeyKept{ID: job.ID(fmt.Sprint(n)), Idempotency: job.Idempotency{Key: fmt.Sprint("key ", n)}}
	}
	for n := range 5 * expectedAtOnce {
		e.add([]job.KeyKept{key(n)})
		if earlier := max(n-expectedAtOnce+1, 0); e.of(key(n).ID) != key(n).Idempotency || e.of(key(earlier).ID) != key(earlier).Idempotency {
			t.Fatalf("after %d keys one of the last %d is forgotten", n+1, expectedAtOnce)
		}
		if held := len(e.now) + len(e.before); held > 2*expectedAtOnce {
			t.Fatalf("%d are held", held)
		}
	}
	e.forget([]job.JournalRow{{Job: job.Job{ID: key(5*expectedAtOnce - 1).ID}}})
	if e.of(key(5*expectedAtOnce-1).ID) != (job.Idempotency{}) || e.of("0") != (job.Idempotency{}) {
		t.Error("forgotten, and there")
	}
}

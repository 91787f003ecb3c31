package events

import (
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/fuzz"
	"github.com/tierq/tierq/internal/job"
)

// A stream continues after the given id, or says with a Resync that events may be missing.
func FuzzLastEventID(f *testing.F) {
	h := New(Options{Source: newLine(), Finder: &world{}})
	h.nonce = "abcdefgh"
	for range ringSize + 10 {
		h.ring.add(ended(someID))
	}
	fuzz.Text(f, func(t *testing.T, id string) {
		missed, whole := h.missed(id)
		if len(missed) > ringSize || !whole && missed != nil {
			t.Errorf("%d missed, %v", len(missed), whole)
		}
		if whole && id != "" && !strings.HasPrefix(id, "abcdefgh-") {
			t.Error("another hub's id was taken for ours")
		}
		for _, e := range missed {
			if e != (job.Event{ID: someID, Status: job.Completed}) {
				t.Errorf("missed %+v", e)
			}
		}
	}, "", "abcdefgh-1010", "abcdefgh-1", "abcdefgh-18446744073709551615", "abcdefgh-18446744073709551616", "abcdefgh--1",
		"abcdefgh-+5",
		"other-5", "abcdefgh-", "abcdefgh-1033\n")
}

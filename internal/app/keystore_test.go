package app

import (
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// A key that is made without a server is in the log of changes with its queues and tiers, and without its secret.
func TestNewKey_InTheLogOfChanges(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	k := NewKey{
		Name: "w", Role: "worker", Tiers: []string{"PAID"}, Queues: []string{"pictures", "main"}, Expires: time.Hour,
	}.key(now)
	k.ID = "abcdefghijklmnop"
	const want = `{"id":"abcdefghijklmnop","name":"w","role":"worker","tiers":["PAID"],"types":[],` +
		`"queues":["pictures","main"],"rate":0,"burst":0,"inFlight":0,"expiresAt":"2026-05-01T13:00:00Z"}`
	if got := string(shown(&k)); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	const all = `{"id":"","name":"","role":"","tiers":[],"types":[],"queues":[],"rate":0,"burst":0,"inFlight":0,` +
		`"expiresAt":null}`
	if got := string(shown(&job.Key{})); got != all {
		t.Errorf("%s\nwant %s", got, all)
	}
}

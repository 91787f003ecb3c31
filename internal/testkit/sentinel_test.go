package testkit

import (
	"testing"
	"time"
)

// The sentinels replace a killed master by its replica.
func TestSentinel(t *testing.T) {
	t.Parallel()
	s := NewSentinel(t)
	first := s.Master()
	if first != s.Nodes()[0] || s.Other(first) != s.Nodes()[1] {
		t.Fatal("the first node is not the master")
	}
	_, err := first.ask("SET", "a", "1")
	must(t, err)
	_, err = first.ask("WAIT", 1, 5000)
	must(t, err)
	must(t, first.Kill())
	Eventually(t, 30*time.Second, "the replica is promoted",
		func() (bool, string) { return s.Master() == s.Other(first), "" })
	if got, err := s.Master().ask("GET", "a"); err != nil || got != "1" {
		t.Errorf("%v, %v", got, err)
	}
}

package testkit

import (
	"fmt"
	"testing"
)

// Move moves a slot with its keys to another master, as an operator's tool would.
func (c *Cluster) Move(t testing.TB, slot int, to *Redis) {
	t.Helper()
	m := c.StartMove(t, slot, to)
	for m.Step(t, 10) {
	}
	m.Finish(t)
}

// Move is a slot on its way from one master to another. The first master answers for the keys that it still has,
// and redirects the client for all others (ASK). It answers TRYAGAIN to a call with keys on both sides, or with
// keys of which some do not exist.
type Move struct {
	slot     int
	from, to *Redis
	ids      map[*Redis]string
	masters  []*Redis
}

// StartMove tells both masters of a slot that the slot is moving. No key has moved yet.
func (c *Cluster) StartMove(t testing.TB, slot int, to *Redis) *Move {
	t.Helper()
	m := &Move{slot: slot, from: c.serving(slot), to: to, ids: map[*Redis]string{}}
	for id, n := range c.ids {
		m.ids[n] = id
	}
	if m.from == nil || m.from == to {
		t.Fatalf("slot %d cannot move: served by %v", slot, m.from)
	}
	for _, n := range c.nodes {
		if role, err := n.ask("ROLE"); err == nil && fmt.Sprint(role.([]any)[0]) == "master" {
			m.masters = append(m.masters, n)
		}
	}
	m.ask(t, to, "CLUSTER", "SETSLOT", slot, "IMPORTING", m.ids[m.from])
	m.ask(t, m.from, "CLUSTER", "SETSLOT", slot, "MIGRATING", m.ids[to])
	return m
}

// Step moves at most n keys and returns false if none was left.
func (m *Move) Step(t testing.TB, n int) bool {
	t.Helper()
	keys := m.ask(t, m.from, "CLUSTER", "GETKEYSINSLOT", m.slot, n).([]any)
	if len(keys) == 0 {
		return false
	}
	m.ask(t, m.from, append([]any{"MIGRATE", "127.0.0.1", m.to.port, "", 0, 5000, "KEYS"}, keys...)...)
	return true
}

// Finish tells all masters that the slot now belongs to the second one. Clients get MOVED from now on.
func (m *Move) Finish(t testing.TB) {
	t.Helper()
	m.ask(t, m.to, "CLUSTER", "SETSLOT", m.slot, "NODE", m.ids[m.to])
	m.ask(t, m.from, "CLUSTER", "SETSLOT", m.slot, "NODE", m.ids[m.to])
	for _, n := range m.masters {
		if n != m.from && n != m.to {
			m.ask(t, n, "CLUSTER", "SETSLOT", m.slot, "NODE", m.ids[m.to])
		}
	}
}

func (m *Move) ask(t testing.TB, n *Redis, command ...any) any {
	t.Helper()
	answer, err := n.ask(command...)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

package testkit

import (
	"fmt"
	"testing"
)

// Move takes a slot with its keys to another master, as an operator's tool would.
func (c *Cluster) Move(t testing.TB, slot int, to *Redis) {
	t.Helper()
	m := c.StartMove(t, slot, to)
	for m.Step(t, 10) {
	}
	m.Finish(t)
}

// Move is a slot on its way from one master to another: what is still with the first is answered there, for everything
// else the client is sent on (ASK), and a call with keys of both, or with some that do not exist, is told to come again
// (TRYAGAIN).
type Move struct {
	slot     int
	from, to *Redis
	ids      map[*Redis]string
	masters  []*Redis
}

// StartMove tells both masters of a slot that its keys are on their way. No key has moved yet.
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

// Step moves at most n keys and says whether there were any.
func (m *Move) Step(t testing.TB, n int) bool {
	t.Helper()
	keys := m.ask(t, m.from, "CLUSTER", "GETKEYSINSLOT", m.slot, n).([]any)
	if len(keys) == 0 {
		return false
	}
	m.ask(t, m.from, append([]any{"MIGRATE", "127.0.0.1", m.to.port, "", 0, 5000, "KEYS"}, keys...)...)
	return true
}

// Finish says whose the slot is now; the clients are sent there for good (MOVED).
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

package client

import (
	"maps"
	"slices"

	"github.com/tierq/tierq/internal/chaos/check"
)

// Witness returns what the clients and the receiver of callbacks saw beside ops and polls.
func (h *history) Witness() check.Witness {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.beside
	w.Asked, w.Strangers, w.Calls = maps.Clone(w.Asked), slices.Clone(w.Strangers), slices.Clone(w.Calls)
	w.Rounds = slices.Clone(w.Rounds)
	return w
}

func (h *history) askedFor(key string, a check.Asked) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.beside.Asked[key] = a
	h.write(line{Key: key, Asked: &a})
}

func (h *history) strange(s check.Stranger) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.beside.Strangers = append(h.beside.Strangers, s)
	h.write(line{Stranger: &s})
}

func (h *history) heard(c check.Call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.beside.Calls = append(h.beside.Calls, c)
	h.write(line{Called: &c})
}

// shut counts an answer of 401 or 403 to a valid key.
func (h *history) shut() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.beside.Shut++
}

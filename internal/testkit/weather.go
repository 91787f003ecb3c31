package testkit

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Weather describes how bad the line of a TCPProxy is. The zero value is a good line.
type Weather struct {
	Latency, Jitter time.Duration // added to each piece in each direction; Jitter is the bound of a random part
	BytesPerSecond  int           // in each direction, over all connections; 0 = no limit
	Stalled         bool          // nothing passes and nothing is closed; all bytes arrive when the stall ends
}

// line is the present weather with the state that the pumps share.
type line struct {
	mu       sync.Mutex
	now      Weather
	changed  chan struct{}      // closed and replaced by each SetWeather
	free     map[bool]time.Time // by direction: when the earlier bytes have passed
	suffered int
}

// SetWeather changes the line at once, for open connections too.
func (p *TCPProxy) SetWeather(w Weather) {
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	p.line.now = w
	if p.line.changed != nil {
		close(p.line.changed)
	}
	p.line.changed, p.line.free = make(chan struct{}), map[bool]time.Time{}
}

// Suffered counts the pieces that bad weather held back: the evidence that the fault had an effect.
func (p *TCPProxy) Suffered() int {
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	return p.line.suffered
}

// pass waits as long as the weather holds n bytes back. It returns early when the link is over.
func (l *line) pass(k *link, out bool, n int) {
	counted := false
	for {
		l.mu.Lock()
		w, changed := l.now, l.changed
		if w == (Weather{}) {
			l.mu.Unlock()
			return
		}
		if !counted {
			l.suffered++
			counted = true
		}
		wait := w.Latency
		if w.Jitter > 0 {
			wait += rand.N(w.Jitter)
		}
		if w.BytesPerSecond > 0 {
			at := time.Now()
			if l.free[out].After(at) {
				at = l.free[out]
			}
			l.free[out] = at.Add(time.Duration(n) * time.Second / time.Duration(w.BytesPerSecond))
			wait += time.Until(l.free[out])
		}
		l.mu.Unlock()
		var through <-chan time.Time // nil waits for ever, for a stall
		if !w.Stalled {
			through = time.After(wait)
		}
		select {
		case <-through:
			return
		case <-changed: // look at the new weather
		case <-k.over:
			return
		}
	}
}

package testkit

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Weather is how bad the line of a TCPProxy is. The zero value is a good one.
type Weather struct {
	Latency, Jitter time.Duration // added to each piece, each way; the jitter at random
	BytesPerSecond  int           // each way, over all connections; 0 = no bound
	Stalled         bool          // nothing passes and nothing is closed: what was sent arrives when this is over
}

// line is the weather as the pumps meet it.
type line struct {
	mu       sync.Mutex
	now      Weather
	changed  chan struct{}      // closed and replaced with the weather
	free     map[bool]time.Time // by direction: when what was sent before is through
	suffered int
}

// SetWeather changes the line from now on, for open connections too.
func (p *TCPProxy) SetWeather(w Weather) {
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	p.line.now = w
	if p.line.changed != nil {
		close(p.line.changed)
	}
	p.line.changed, p.line.free = make(chan struct{}), map[bool]time.Time{}
}

// Suffered counts the pieces that bad weather held back: the evidence that it landed.
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
		var through <-chan time.Time // never, while it stalls
		if !w.Stalled {
			through = time.After(wait)
		}
		select {
		case <-through:
			return
		case <-changed: // into the new weather
		case <-k.over:
			return
		}
	}
}

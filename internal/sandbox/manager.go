package sandbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/loop"
)

// The reasons why a session cannot play now.
var (
	ErrFull    = errors.New("all sandboxes are taken, try again in a few minutes")
	ErrTooSoon = errors.New("one scenario a second")
)

const sweepEvery = 10 * time.Second

// ManagerOptions are a Manager's options. A server uses the zero value.
type ManagerOptions struct {
	Boxes int           // the most boxes in this process; default 8
	Idle  time.Duration // time after its last use when a box is stopped; default 5 min
	Gap   time.Duration // the least time between two plays of a session; default 1 s
	Box   Options
}

// Manager holds one box per session that plays. It is safe for concurrent use.
type Manager struct {
	*loop.Loop
	options ManagerOptions

	mu      sync.Mutex
	boxes   map[string]*kept
	told    int64 // the highest event id of all removed boxes
	stopped bool
}

// kept is the box of a session.
type kept struct {
	box          *Box
	began, until time.Time // the time of the last play; the time when the box counts as idle
}

// NewManager makes a manager without boxes. Idle boxes are removed only between Start and Stop.
func NewManager(o ManagerOptions) *Manager {
	if o.Boxes <= 0 {
		o.Boxes = 8
	}
	if o.Idle <= 0 {
		o.Idle = 5 * time.Minute
	}
	if o.Gap <= 0 {
		o.Gap = time.Second
	}
	m := &Manager{options: o, boxes: map[string]*kept{}}
	m.Loop = loop.New(func(ctx context.Context) time.Duration {
		m.sweep(ctx)
		return sweepEvery
	})
	return m
}

// Play begins a scenario in the session's box, which is made if there is none. The errors are ErrUnknown,
// ErrTooSoon, ErrFull and ErrStopped.
func (m *Manager) Play(ctx context.Context, session, scenario string) error {
	if _, ok := find(scenario); !ok {
		return fmt.Errorf("%w: %q", ErrUnknown, scenario)
	}
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.boxes[session]
	switch {
	case m.stopped:
		return ErrStopped
	case k == nil:
		if len(m.boxes) >= m.options.Boxes && !m.free() {
			return ErrFull
		}
		o := m.options.Box
		o.After = m.told // a listener of the session's last box gets all events of this one
		k = &kept{box: New(o)}
		m.boxes[session] = k
	case now.Sub(k.began) < m.options.Gap:
		return ErrTooSoon
	}
	k.began, k.until = now, now.Add(m.options.Idle)
	return k.box.Play(ctx, scenario)
}

// free removes the box that was played longest ago, among those in which nothing plays; it returns false if there
// is none. The caller holds the lock.
func (m *Manager) free() bool {
	var oldest string
	for session, k := range m.boxes {
		if !k.box.Playing() && (oldest == "" || k.began.Before(m.boxes[oldest].began)) {
			oldest = session
		}
	}
	k := m.boxes[oldest]
	if k == nil {
		return false
	}
	m.forget(oldest)
	_ = k.box.Stop(context.Background()) // nothing plays in it, so there is nothing to wait for
	return true
}

// forget removes a session's box; the caller stops the box. The caller holds the lock.
func (m *Manager) forget(session string) {
	m.told = max(m.told, m.boxes[session].box.ring.lastID())
	delete(m.boxes, session)
}

// Events returns the events of the session's box behind an id (see Box.Events). Without a box it returns none, and
// closed is true.
func (m *Manager) Events(session string, after int64) (events []Event, more <-chan struct{}, closed bool) {
	m.mu.Lock()
	k := m.boxes[session]
	if k != nil {
		k.until = time.Now().Add(m.options.Idle)
	}
	m.mu.Unlock()
	if k == nil {
		return nil, nil, true
	}
	return k.box.Events(after)
}

// sweep stops the boxes that were idle for too long.
func (m *Manager) sweep(ctx context.Context) {
	now := time.Now()
	var idle []*Box
	m.mu.Lock()
	for session, k := range m.boxes {
		if now.After(k.until) {
			idle = append(idle, k.box)
			m.forget(session)
		}
	}
	m.mu.Unlock()
	for _, b := range idle {
		_ = b.Stop(ctx) // nothing plays in it: a scenario is much shorter than Idle
	}
}

// Stop stops all boxes and waits for them, or until ctx ends. After that no session can play.
func (m *Manager) Stop(ctx context.Context) error {
	m.mu.Lock()
	m.stopped = true
	boxes := m.boxes
	m.boxes = map[string]*kept{}
	m.mu.Unlock()
	problems := make(chan error, len(boxes)+1)
	problems <- m.Loop.Stop(ctx)
	var group sync.WaitGroup
	for _, k := range boxes {
		group.Go(func() { problems <- k.box.Stop(ctx) })
	}
	group.Wait()
	close(problems)
	var err error
	for problem := range problems {
		err = errors.Join(err, problem)
	}
	return err
}

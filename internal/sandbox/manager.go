package sandbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/loop"
)

// The reasons why a session may not play now.
var (
	ErrFull    = errors.New("all sandboxes are taken, try again in a few minutes")
	ErrTooSoon = errors.New("one scenario a second")
)

const sweepEvery = 10 * time.Second

// ManagerOptions are a Manager's. The zero value is what a server has.
type ManagerOptions struct {
	Boxes int           // in this process, at most; default 8
	Idle  time.Duration // after its last use a box is stopped; default 5 min
	Gap   time.Duration // between two plays of a session, at least; default 1 s
	Box   Options
}

// Manager keeps a box for each session that plays. It is safe for concurrent use.
type Manager struct {
	*loop.Loop
	options ManagerOptions

	mu      sync.Mutex
	boxes   map[string]*kept
	told    int64 // the highest id of a box that is gone
	stopped bool
}

// kept is a session's box.
type kept struct {
	box          *Box
	began, until time.Time // the last play; when it is idle for too long
}

// NewManager makes a manager without boxes. Boxes are only ever thrown away between Start and Stop.
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

// Play begins a scenario in the session's box, which is made if it has none. The errors are ErrUnknown, ErrTooSoon,
// ErrFull and ErrStopped.
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
		o.After = m.told // a listener of the session's last box hears all of this one
		k = &kept{box: New(o)}
		m.boxes[session] = k
	case now.Sub(k.began) < m.options.Gap:
		return ErrTooSoon
	}
	k.began, k.until = now, now.Add(m.options.Idle)
	return k.box.Play(ctx, scenario)
}

// free gives up the box that was used longest ago, of those in which nothing plays; false if there is none. The lock is
// held.
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
	_ = k.box.Stop(context.Background()) // nothing plays in it: there is nothing to wait for
	return true
}

// forget lets go of a session's box, which its caller stops. The lock is held.
func (m *Manager) forget(session string) {
	m.told = max(m.told, m.boxes[session].box.ring.lastID())
	delete(m.boxes, session)
}

// Events are those of the session's box behind an id, see Box.Events. A session without a box has none, and closed is
// true.
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

// sweep stops the boxes that nobody has used for long.
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
		_ = b.Stop(ctx) // nothing plays in it: a scenario is much shorter than this
	}
}

// Stop stops all boxes and waits for them, or until ctx ends. No session plays any more.
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

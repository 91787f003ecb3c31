package faktory

import (
	"context"
	"encoding/json"
	"runtime"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// The reply to INFO. It has the members of Faktory's, and no others: clients' tests count them.
type infoBody struct {
	Now     string      `json:"now"`
	UTC     string      `json:"server_utc_time"`
	Faktory infoFaktory `json:"faktory"`
	Server  infoServer  `json:"server"`
}

type infoFaktory struct {
	Queues         map[string]int64    `json:"queues"`
	Sets           map[string]int64    `json:"sets"`
	Tasks          map[string]infoTask `json:"tasks"`
	TotalFailures  int64               `json:"total_failures"`
	TotalProcessed int64               `json:"total_processed"`
	TotalEnqueued  int64               `json:"total_enqueued"`
	TotalQueues    int                 `json:"total_queues"`
}

type infoTask map[string]float64

type infoServer struct {
	Description string `json:"description"`
	Version     string `json:"faktory_version"`
	Uptime      int64  `json:"uptime"`
	Connections int    `json:"connections"`
	Commands    uint64 `json:"command_count"`
	MemoryMB    uint64 `json:"used_memory_mb"`
}

// info serves INFO. Its figures are exact after a change that this process made.
func (c *conn) info(ctx context.Context, _ []byte) error {
	body, err := c.figures(ctx)
	if err != nil {
		return c.refuse(err)
	}
	text, err := json.Marshal(body)
	if err != nil {
		return c.refuse(err)
	}
	return c.result(text)
}

func (c *conn) figures(ctx context.Context) (b infoBody, err error) {
	s := c.server
	s.drops.wait(ctx)
	counts, err := s.Counts.QueueCounts(ctx)
	if err != nil {
		return b, err
	}
	var sum job.QueueCount
	f := infoFaktory{Queues: map[string]int64{}}
	names := c.visible()
	for name := range counts { // another process may have declared it just now
		if _, known := s.Queues.Find(name); !known && c.sees(name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		n := counts[name]
		f.Queues[name] = n.Ready
		sum.Ready, sum.Scheduled, sum.Running = sum.Ready+n.Ready, sum.Scheduled+n.Scheduled, sum.Running+n.Running
		sum.Delayed += n.Delayed
	}
	dead, err := c.countDead(ctx)
	if err != nil {
		return b, err
	}
	if f.TotalProcessed, f.TotalFailures, err = s.Book.FaktoryTotals(ctx); err != nil {
		return b, err
	}
	f.TotalEnqueued, f.TotalQueues = sum.Ready, len(f.Queues)
	retries := max(sum.Scheduled-sum.Delayed, 0)
	f.Sets = map[string]int64{"scheduled": sum.Delayed, "retries": retries, "dead": dead, "working": sum.Running}
	f.Tasks = map[string]infoTask{
		"Scheduled": sized(sum.Delayed), "Retries": sized(retries), "Dead": sized(dead),
		"Busy":    {"size": float64(sum.Running), "reaped": 0},
		"Workers": {"size": float64(s.workers.count()), "reaped": 0},
	}
	now := s.Clock().UTC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return infoBody{
		Now: stamp(now), UTC: now.Format("15:04:05 UTC"), Faktory: f,
		Server: infoServer{
			Description: "Faktory", Version: Version, Uptime: int64(time.Since(s.began).Seconds()),
			Connections: s.seats.count(), Commands: s.commands.Load(), MemoryMB: m.Sys >> 20,
		},
	}, nil
}

func sized(n int64) infoTask {
	return infoTask{"size": float64(n), "enqueued": 0, "cycles": 0, "wall_time_sec": 0}
}

// countDead counts the dead letters that a caller is shown.
func (c *conn) countDead(ctx context.Context) (n int64, err error) {
	s := c.server
	s.dead.settle(ctx, s.Jobs.IsDead)
	if c.caller.Operator() || len(c.caller.Key.Queues) == 0 && c.caller.Works() {
		return s.Counts.CountDead(ctx, "")
	}
	for _, name := range c.visible() {
		of, err := s.Counts.CountDead(ctx, name)
		if err != nil {
			return 0, err
		}
		n += of
	}
	return n, nil
}

// deadCount knows the jobs that died here and that SQL may not have as dead letters yet.
type deadCount struct {
	mu      sync.Mutex
	pending []job.ID
}

// mostPending bounds them: beyond it the count lags behind for a moment.
const mostPending = 1000

func (d *deadCount) expect(id job.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.pending) < mostPending {
		d.pending = append(d.pending, id)
	}
}

// settle waits until SQL has the dead letters of this process, for settleFor at most.
func (d *deadCount) settle(ctx context.Context, there func(context.Context, job.ID) (bool, error)) {
	d.mu.Lock()
	pending := d.pending
	d.pending = nil
	d.mu.Unlock()
	end := time.Now().Add(settleFor)
	for len(pending) > 0 && time.Now().Before(end) && ctx.Err() == nil {
		if ok, err := there(ctx, pending[0]); ok || err != nil {
			pending = pending[1:]
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

const settleFor = 2 * time.Second

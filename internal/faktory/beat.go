package faktory

import (
	"context"
	"encoding/json"

	"github.com/tierq/tierq/internal/job"
)

// beat serves BEAT. The leases of a worker live by its connections, so that BEAT only carries what the worker says of
// itself, and what operators ask of it.
func (c *conn) beat(_ context.Context, text []byte) error {
	var b struct {
		Wid   string `json:"wid"`
		State string `json:"current_state"`
		RSS   int64  `json:"rss_kb"`
	}
	if json.Unmarshal(text, &b) != nil {
		return c.fail("invalid BEAT " + string(text))
	}
	w := c.worker
	if b.Wid != "" && b.Wid != w.wid {
		if w = c.server.workers.find(c.keyID, b.Wid); w == nil {
			return c.fail("unknown worker " + b.Wid)
		}
	}
	w.mu.Lock()
	switch state := job.WorkerState(b.State); {
	case state == job.WorkerTerminates, state == job.WorkerQuiet && w.state == job.WorkerRuns:
		w.state = state // a worker that is quiet or ends never runs again
	}
	own := w.state
	w.mu.Unlock()
	c.server.see(w)
	state := c.server.Leases.Asked(w.key, w.name)
	if state == job.WorkerRuns || own == job.WorkerTerminates {
		state = own
	}
	if state == job.WorkerRuns {
		return c.ok()
	}
	return c.result([]byte(`{"state":"` + string(state) + `"}`))
}

package archive

import (
	"sync"

	"github.com/tierq/tierq/internal/job"
)

// expectedAtOnce is how many later keys it takes at least until one is forgotten: more than a process has submits without an answer.
const expectedAtOnce = 8192

// expected are the Idempotency-Keys of submits that are on their way to Redis, by job. Most leave when their row is written; those of submits that
// came to nothing leave with their generation.
type expected struct {
	mu          sync.Mutex
	now, before map[job.ID]job.Idempotency
}

func (e *expected) add(keys []job.KeyKept) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, k := range keys {
		if e.now == nil || len(e.now) >= expectedAtOnce {
			e.now, e.before = map[job.ID]job.Idempotency{}, e.now
		}
		e.now[k.ID] = k.Idempotency
	}
}

func (e *expected) of(id job.ID) job.Idempotency {
	e.mu.Lock()
	defer e.mu.Unlock()
	if key, ok := e.now[id]; ok {
		return key
	}
	return e.before[id]
}

func (e *expected) forget(rows []job.JournalRow) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range rows {
		delete(e.now, rows[i].ID)
		delete(e.before, rows[i].ID)
	}
}

package faktory

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// workerKey names a worker among those of all API keys.
type workerKey struct {
	key   string // the id of the API key
	wid   string // of a worker without a name: its host
	named bool
}

// book names the worker's leases among those of its API key.
func (k workerKey) book() string {
	if k.named {
		return "wid " + k.wid
	}
	return "host " + k.wid
}

// worker is a client as it names itself: by its wid, or, without one, by its host. Clients without a wid share an
// entry per host.
type worker struct {
	workerKey
	name string      // in leases and histories
	busy atomic.Bool // its last claim found jobs

	mu     sync.Mutex
	conns  int
	left   time.Time // when its last connection closed
	held   map[string]*held
	state  job.WorkerState // what the worker says of itself
	info   job.WorkerInfo
	queues []string // of its latest FETCH
}

// held is a lease of a worker.
type held struct {
	job.HeldLease
	queue string                    // of its job; "" = not known: another process fetched it
	conn  *conn                     // of a worker without a wid: the connection that fetched it
	at    time.Time                 // when this process heard of it
	lost  atomic.Pointer[time.Time] // since when it is known to be lost; nil = it is not
}

// workers are the workers that have a connection here, or had one lately.
type workers struct {
	mu  sync.Mutex
	all map[workerKey]*worker
}

// enter notes a connection, and returns its worker.
func (w *workers) enter(c *conn, h *hello) *worker {
	key := workerKey{c.keyID, h.Wid, h.Wid != ""}
	if !key.named {
		key.wid = clipped(h.Hostname)
	}
	w.mu.Lock()
	one := w.all[key]
	if one == nil {
		one = &worker{
			workerKey: key, name: nameOf(h), held: map[string]*held{}, state: job.WorkerRuns,
		}
		w.all[key] = one
	}
	one.mu.Lock()
	one.conns++
	if one.named {
		one.info = job.WorkerInfo{Host: clipped(h.Hostname), PID: h.PID, Language: languageOf(h.Labels)}
	}
	one.mu.Unlock()
	w.mu.Unlock()
	c.server.see(one)
	return one
}

// leave notes that a connection was closed. The leases that it fetched without a wid run out.
func (w *workers) leave(one *worker, c *conn) {
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.conns--; one.conns == 0 {
		one.left = time.Now()
	}
	if one.named {
		return
	}
	for field, h := range one.held {
		if h.conn == c {
			delete(one.held, field)
		}
	}
}

// list returns the workers whose leases are to be extended, and forgets the others.
func (w *workers) list() (all []*worker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, one := range w.all {
		one.mu.Lock()
		over := one.conns == 0 && time.Since(one.left) > graceTime
		one.mu.Unlock()
		if over {
			delete(w.all, key)
			continue
		}
		all = append(all, one)
	}
	return all
}

// count returns how many workers with a name have a connection here.
func (w *workers) count() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.all {
		one.mu.Lock()
		if one.named && one.conns > 0 {
			n++
		}
		one.mu.Unlock()
	}
	return n
}

// find returns a worker that has a connection here; nil if there is none.
func (w *workers) find(key, wid string) *worker {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all[workerKey{key, wid, true}]
}

// nameOf returns the name of a worker in leases and histories: the wid, if leases can have such a name.
func nameOf(h *hello) string {
	name := h.Wid
	if name == "" {
		name = "host." + h.Hostname
	}
	if plain(name) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return "faktory-" + hex.EncodeToString(sum[:12])
}

// plain says whether a text is a name as workers have.
func plain(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= 64
}

// languageOf returns the language among the labels of a worker. The libraries put it there.
func languageOf(labels []string) string {
	for _, label := range labels {
		switch label {
		case "golang", "go":
			return "go"
		case "javascript", "node", "nodejs":
			return "node"
		}
		if len(label) >= 4 && (label[:4] == "ruby" || label[:4] == "rust") {
			return label[:4]
		}
		if len(label) >= 6 && label[:6] == "python" {
			return "python"
		}
	}
	return ""
}

func clipped(s string) string { return s[:min(len(s), 100)] }

// take adds leases that are to be handed to connections.
func (w *worker) take(all []job.HeldLease) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range all {
		w.held[h.Field] = &held{HeldLease: h, at: now}
	}
}

// lookup returns the leases that a worker holds by what it calls their job, the newest first.
func (w *worker) lookup(jid string) (found []*held) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.held {
		if h.Name == jid {
			found = append(found, h)
		}
	}
	slices.SortFunc(found, newer)
	return found
}

// drop forgets a lease.
func (w *worker) drop(field string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.held, field)
}

// newer compares leases: the latest attempt of a job is the one that its worker has.
func newer(a, b *held) int {
	return cmp.Or(cmp.Compare(len(b.Field), len(a.Field)), cmp.Compare(b.Field, a.Field))
}

// owns notes which connection got a lease.
func (w *worker) owns(field, queue string, c *conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h := w.held[field]; h != nil {
		h.conn, h.queue = c, queue
	}
}

// fetches notes from which queues a worker fetches.
func (w *worker) fetches(queues []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.queues, queues) {
		w.queues = queues
	}
}

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// embeddedLoad submits to a server that dies and comes back, and remembers what it was promised.
type embeddedLoad struct {
	t    *testing.T
	file string
	base atomic.Value // string
	over chan struct{}

	mu       sync.Mutex
	accepted map[string]bool
	keys     map[string]map[string]bool // key -> the ids it was answered with
	doubts   int
	repeats  int
}

func newEmbeddedLoad(t *testing.T, file string) *embeddedLoad {
	l := &embeddedLoad{t: t, file: file, over: make(chan struct{}), accepted: map[string]bool{}, keys: map[string]map[string]bool{}}
	l.base.Store("")
	return l
}

// submit goes on until the load is over. A third of the jobs have a key, under which they are sent again until they are answered.
func (l *embeddedLoad) submit(submitter int) {
	bodies := []string{
		counting(l.file, 0), counting(l.file, 30), counting(l.file, 5),
		`{"payload":{"steps":[{"type":"FAIL","message":"no"}]},"maxRetries":0}`,
		strings.TrimSuffix(counting(l.file, 1), "}") + `,"delaySeconds":1}`,
	}
	for n := 0; ; n++ {
		select {
		case <-l.over:
			return
		case <-time.After(3 * time.Millisecond): // a load, not a flood
		}
		key := ""
		if n%3 == 0 {
			key = fmt.Sprintf("k-%d-%d", submitter, n)
		}
		tier := []string{"paid", "unpaid", "public"}[n%3]
		for try := 0; !l.send(tier, bodies[n%len(bodies)], key) && key != ""; try++ {
			l.mu.Lock()
			l.repeats++
			l.mu.Unlock()
			select {
			case <-l.over:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
}

// send reports whether the server answered.
func (l *embeddedLoad) send(tier, body, key string) bool {
	base, _ := l.base.Load().(string)
	var header []string
	if key != "" {
		header = []string{"Idempotency-Key", key}
	}
	a, err := try(http.MethodPost, base+"/"+tier+"/submit", body, header...)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.doubts++
		return false
	case a.status != http.StatusAccepted:
		return a.status != http.StatusGatewayTimeout && a.status != http.StatusServiceUnavailable
	}
	id := accepted(l.t, a)
	l.accepted[id] = true
	if key != "" {
		if l.keys[key] == nil {
			l.keys[key] = map[string]bool{}
		}
		l.keys[key][id] = true
	}
	return true
}

func (l *embeddedLoad) ids() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []string
	for id := range l.accepted {
		ids = append(ids, id)
	}
	return ids
}

// keysMadeOneJobEach asks once more under every key: it must be the job that was answered before.
func (l *embeddedLoad) keysMadeOneJobEach() {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, ids := range l.keys {
		if len(ids) > 1 {
			l.t.Errorf("key %s was answered with %d jobs", key, len(ids))
		}
	}
	if len(l.keys) == 0 {
		l.t.Error("no keys")
	}
}

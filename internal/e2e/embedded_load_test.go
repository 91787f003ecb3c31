package e2e

import (
	"database/sql"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
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
	asked    map[string][2]string       // key -> tier and body
	doubts   int
	repeats  int
}

func newEmbeddedLoad(t *testing.T, file string) *embeddedLoad {
	l := &embeddedLoad{
		t: t, file: file, over: make(chan struct{}), accepted: map[string]bool{}, keys: map[string]map[string]bool{},
		asked: map[string][2]string{},
	}
	l.base.Store("")
	return l
}

// submit goes on until the load is over. A third of the jobs have a key, under which they are sent again until they are
// answered.
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

// send reports whether the server answered. A key is its jobs' trace as well, by which they are found in SQL.
func (l *embeddedLoad) send(tier, body, key string) bool {
	base, _ := l.base.Load().(string)
	var header []string
	if key != "" {
		header = []string{"Idempotency-Key", key, "X-Trace-Id", key}
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
		l.keys[key][id], l.asked[key] = true, [2]string{tier, body}
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

// keysMadeOneJobEach asks once more under every key: it must be the job that was answered before, and the only one that
// SQL has of the key, beside those that were withdrawn. A key whose submitter never had an answer may have made one
// too.
func (l *embeddedLoad) keysMadeOneJobEach(e *embedded) {
	l.t.Helper()
	asked := maps.Clone(l.asked) // each send writes it again
	keys := slices.Collect(maps.Keys(asked))
	var group sync.WaitGroup
	for part := range slices.Chunk(keys, len(keys)/8+1) {
		group.Go(func() {
			for _, key := range part {
				if !l.send(asked[key][0], asked[key][1], key) {
					l.t.Errorf("key %s was not answered again", key)
				}
			}
		})
	}
	group.Wait()
	for key, ids := range l.keys {
		if len(ids) > 1 {
			l.t.Errorf("key %s was answered with %d jobs", key, len(ids))
		}
	}
	made := e.jobsByTrace("k-%")
	for key, n := range made {
		if n > 1 {
			l.t.Errorf("key %s made %d jobs", key, n)
		}
	}
	for _, key := range keys {
		if made[key] == 0 {
			l.t.Errorf("key %s made no job", key)
		}
	}
	if len(keys) == 0 {
		l.t.Error("no keys")
	}
}

// jobsByTrace counts the jobs, living or ended, of each trace that is like a pattern; those that ended CANCELLED are
// left out.
func (e *embedded) jobsByTrace(like string) map[string]int {
	e.t.Helper()
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(e.dir, "tierq.sqlite")+"?mode=ro&_pragma=busy_timeout(5000)")
	if err != nil {
		e.t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	rows, err := db.Query(`SELECT trace_id, COUNT(*) FROM (SELECT job_id, trace_id FROM accepted_jobs
		UNION SELECT job_id, trace_id FROM job_outcomes WHERE outcome <> 'CANCELLED') WHERE trace_id LIKE ? GROUP BY trace_id`, like)
	if err != nil {
		e.t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	made := map[string]int{}
	for rows.Next() {
		var trace string
		var n int
		if err := rows.Scan(&trace, &n); err != nil {
			e.t.Fatal(err)
		}
		made[trace] = n
	}
	if err := rows.Err(); err != nil {
		e.t.Fatal(err)
	}
	return made
}

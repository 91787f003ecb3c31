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

// embeddedLoad submits to a server that is killed and started again, and remembers the server's answers.
type embeddedLoad struct {
	t    *testing.T
	file string
	base atomic.Value // string
	over chan struct{}

	mu       sync.Mutex
	accepted map[string]bool
	keys     map[string]map[string]bool // key -> the ids in its answers
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

// submit submits jobs until the load is over. A third of the jobs have a key, under which they are repeated until
// they are answered.
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
		case <-time.After(3 * time.Millisecond): // a steady load, not a flood
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

// send reports whether the server answered. A job's key is also its trace id, by which the test finds the job in
// SQL.
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

// keysMadeOneJobEach repeats the submit of every key. The answer must be the job of the earlier answers, and SQL
// must have no other job of the key, apart from cancelled ones. A key without an earlier answer may have made its
// job already.
func (l *embeddedLoad) keysMadeOneJobEach(e *embedded) {
	l.t.Helper()
	asked := maps.Clone(l.asked) // each send writes to the map
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

// jobsByTrace counts the jobs, living or ended, of each trace id that matches a pattern, without CANCELLED ones.
func (e *embedded) jobsByTrace(like string) map[string]int {
	e.t.Helper()
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(e.dir, "tierq.sqlite")+"?mode=ro&_pragma=busy_timeout(5000)")
	if err != nil {
		e.t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	rows, err := db.Query(`SELECT trace_id, COUNT(*) FROM (SELECT job_id, trace_id FROM accepted_jobs
		UNION SELECT job_id, trace_id FROM `+endings+` WHERE outcome <> 'CANCELLED')
		WHERE trace_id LIKE ? GROUP BY trace_id`, like)
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

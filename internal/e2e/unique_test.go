package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// uniqueInput is a submit with a unique key, on replace or after.
type uniqueInput struct {
	name     string // in its payload
	key      int
	sent     time.Time
	answered time.Time // zero = no answer came, or 504: the submit may be executed at any time
	accepted bool
}

// uniqueRace is 64 clients that submit to servers which are killed meanwhile.
type uniqueRace struct {
	*cluster
	file string

	mu      sync.Mutex
	servers []*server
	inputs  []uniqueInput
	words   map[string]int // how many answers of each kind came
}

const (
	uniqueClients = 64
	uniqueShops   = 5 // unique keys
	uniqueKills   = 4
)

var uniqueServer = []string{"TIERQ_JOURNAL=" + uniqueJournal, "TIERQ_WORKERS=4", "TIERQ_HEARTBEAT_INTERVAL=100ms"}

// submit submits one job and remembers the answer.
func (r *uniqueRace) submit(name string, dice *rand.Rand) {
	in := uniqueInput{name: name, key: dice.IntN(uniqueShops)}
	on := []string{"replace", "after", "replace", "after", "return", "refuse"}[dice.IntN(6)]
	body := fmt.Sprintf(`{"type":"CHAOS","payload":{"key":%q,"file":%q,"sleepMs":%d},"unique":{"key":"shop %d","on":%q}}`,
		name, r.file, dice.IntN(60), in.key, on)
	r.mu.Lock()
	base := r.servers[dice.IntN(len(r.servers))].base
	r.mu.Unlock()
	in.sent = time.Now()
	a, err := try(http.MethodPost, base+"/paid/submit", body, "X-Trace-Id", fmt.Sprint("shop-", in.key))
	word := "no answer"
	switch {
	case err != nil:
	case a.status == http.StatusAccepted:
		in.answered, in.accepted = time.Now(), true
		word = "accepted"
		for _, what := range []string{"replaced", "deduplicated"} {
			if bytes.Contains(a.body, []byte(`"`+what+`":true`)) {
				word = what
				break
			}
		}
	case a.status == http.StatusConflict || a.status == http.StatusServiceUnavailable:
		in.answered, word = time.Now(), a.code()
	default:
		word = fmt.Sprint(a.status, " ", a.code())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.words[word]++
	if on == "replace" || on == "after" {
		r.inputs = append(r.inputs, in)
	}
}

// kill kills a server with SIGKILL and starts another one in its place.
func (r *uniqueRace) kill(n int) {
	r.t.Helper()
	if err := r.servers[n].Kill(); err != nil {
		r.t.Fatal(err)
	}
	s := r.start(uniqueServer...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.servers[n] = s
}

// begun returns when the handlers began, by the name of the input that they got. A killed process may leave half a
// line.
func (r *uniqueRace) begun() map[string][]time.Time {
	r.t.Helper()
	b, err := os.ReadFile(r.file)
	if err != nil {
		r.t.Fatal(err)
	}
	all := map[string][]time.Time{}
	for line := range strings.Lines(string(b)) {
		var note struct {
			Key, What string
			At        int64
		}
		if json.Unmarshal([]byte(line[max(strings.LastIndex(line, `{"id":`), 0):]), &note) == nil && note.What == "start" {
			all[note.Key] = append(all[note.Key], time.Unix(0, note.At))
		}
	}
	return all
}

// lastInputs checks that after each accepted input its key had a run with that input, or with one that may have come
// after it.
func (r *uniqueRace) lastInputs() {
	begun, wrong := r.begun(), 0
	ran := func(in *uniqueInput) bool {
		for i := range r.inputs {
			other := &r.inputs[i]
			if other.key != in.key || !other.answered.IsZero() && (!other.accepted || other.answered.Before(in.sent)) {
				continue
			}
			for _, at := range begun[other.name] {
				if !at.Before(in.sent) {
					return true
				}
			}
		}
		return false
	}
	for i := range r.inputs {
		if in := &r.inputs[i]; in.accepted && !ran(in) {
			if wrong++; wrong <= 5 {
				r.t.Errorf("%s was accepted for shop %d at %s, and neither it nor a later input ran after that", in.name, in.key,
					in.answered)
			}
		}
	}
	if wrong > 5 {
		r.t.Errorf("%d such inputs", wrong)
	}
}

// oneAtATime checks by Redis' own times that no job of a key was claimed before the one before it had ended.
func (r *uniqueRace) oneAtATime() (jobs int) {
	r.t.Helper()
	rows, err := r.db.Query(`SELECT job_id, trace_id, first_tried_at, completed_at FROM job_results UNION ALL
		SELECT job_id, trace_id, first_tried_at, ended_at FROM job_outcomes WHERE outcome <> 'COMPLETED'
		ORDER BY 2, 3, 4`)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var before, of string
	var until time.Time
	for rows.Next() {
		var id, trace string
		var first, end time.Time
		if err := rows.Scan(&id, &trace, &timeText{&first}, &timeText{&end}); err != nil {
			r.t.Fatal(err)
		}
		if !strings.HasPrefix(trace, "shop-") {
			r.t.Fatalf("%s has the trace id %s", id, trace)
		}
		if jobs++; of == trace && first.Before(until) {
			r.t.Errorf("%s: %s was claimed at %s, and %s ended at %s", trace, id, first, before, until)
		}
		before, of, until = id, trace, end
	}
	if err := rows.Err(); err != nil {
		r.t.Fatal(err)
	}
	return jobs
}

// 64 clients race for five unique keys, while servers are killed: of a key never two jobs live, and the last input runs
// after it came.
func TestUnique_RacingClientsOverKills(t *testing.T) {
	t.Parallel()
	heavy(t)
	r := &uniqueRace{cluster: newCluster(t), file: filepath.Join(t.TempDir(), "runs"), words: map[string]int{}}
	r.servers = append(r.servers, r.start(uniqueServer...))
	r.plan("PAID", "heartbeatTimeoutMs", 1000, "maxRetries", 10)
	for range 2 { // by then the first one has read the plan
		r.servers = append(r.servers, r.start(uniqueServer...))
	}
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for n := range uniqueClients {
		clients.Go(func() {
			dice := rand.New(rand.NewPCG(7, uint64(n)))
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(20+dice.IntN(60)) * time.Millisecond):
				}
				r.submit(fmt.Sprint(n, "-", i), dice)
			}
		})
	}
	for n := range uniqueKills {
		<-time.After(400 * time.Millisecond)
		for _, wrong := range r.audit() { // it knows that one living job has each key
			t.Error("audit: " + wrong)
		}
		r.kill(n % len(r.servers))
	}
	close(stop)
	clients.Wait()
	testkit.Eventually(t, 60*time.Second, "all jobs have ended", func() (bool, string) {
		var rows int
		r.row("SELECT COUNT(*) FROM accepted_jobs", &rows)
		return rows == 0, fmt.Sprint(rows, " rows of living jobs")
	})
	r.settled(60 * time.Second)
	r.lastInputs()
	jobs := r.oneAtATime()
	t.Logf("evidence: %d kills, %d inputs, %d jobs, answers %v", uniqueKills, len(r.inputs), jobs, r.words)
	for _, word := range []string{"replaced", "deduplicated", "UNIQUE_TAKEN", "accepted"} {
		if r.words[word] < 10 {
			t.Errorf("too few answers of a kind: %v", r.words)
		}
	}
}

package faktory

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// INFO has the shape of Faktory's, and is exact after each change.
func TestInfo(t *testing.T) {
	w := newWorld(t)
	w.queues["http"] = job.Queue{Name: "http"} // no Faktory client has pushed to it
	s := w.serve()
	c := dial(t, s, `"wid":"w1",`)
	c.pushes("job-one-1", "job-two-2", "job-three")
	c.is(`PUSH {"jid":"job-four4","jobtype":"T","args":[],"queue":"other","at":"`+
		time.Now().Add(time.Hour).Format(time.RFC3339)+`"}`, "+OK")
	c.is(`PUSH {"jid":"job-five5","jobtype":"T","args":[],"retry":-1}`, "+OK")
	c.fetches("job-one-1")
	c.fetches("job-two-2")
	c.is(`ACK {"jid":"job-two-2"}`, "+OK")
	var info struct {
		Faktory struct {
			Queues                                     map[string]int
			Sets                                       map[string]int
			Tasks                                      map[string]any
			Failures, Processed, Enqueued, TotalQueues int
			TotalFailures                              int `json:"total_failures"`
			TotalProcessed                             int `json:"total_processed"`
			TotalEnqueued                              int `json:"total_enqueued"`
			OfQueues                                   int `json:"total_queues"`
		}
		Server map[string]any
	}
	text := c.asks("INFO")
	if err := json.Unmarshal([]byte(text), &info); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	f := info.Faktory
	if got := fmt.Sprint(f.Queues, f.Sets, f.TotalEnqueued, f.OfQueues, f.TotalProcessed, f.TotalFailures); got !=
		"map[default:2 other:0] map[dead:0 retries:0 scheduled:1 working:1] 2 2 1 0" {
		t.Errorf("it has %s", got)
	}
	var top map[string]json.RawMessage
	_ = json.Unmarshal([]byte(text), &top) // it was read above
	if names := slices.Sorted(maps.Keys(top)); fmt.Sprint(names) != "[faktory now server server_utc_time]" {
		t.Errorf("its members are %s", names)
	}
	if names := slices.Sorted(maps.Keys(f.Tasks)); fmt.Sprint(names) != "[Busy Dead Retries Scheduled Workers]" {
		t.Errorf("its tasks are %s", names)
	}
	if info.Server["description"] != "Faktory" || info.Server["faktory_version"] != "1.9.4" ||
		info.Server["connections"] != 1.0 {
		t.Errorf("its server is %v", info.Server)
	}
	w.locked(func() { w.down = job.ErrUnavailable })
	c.is("INFO", "-ERR unavailable, try again in 1 s")
}

func TestQueue(t *testing.T) {
	w := newWorld(t)
	w.queues["http"] = job.Queue{Name: "http"}
	s := w.serve()
	c := dial(t, s, `"wid":"w1",`)
	c.pushes("job-one-1", "job-two-2")
	c.is("QUEUE PAUSE default unknown http", "+OK")
	c.is("QUEUE resume *", "+OK")
	c.is("QUEUE NOPE default", "-ERR no such QUEUE subcommand: NOPE")
	c.is("QUEUE", "-ERR no such QUEUE subcommand: ")
	c.is("QUEUE PAUSE", "-ERR QUEUE PAUSE needs the names of queues")
	c.is("QUEUE LATENCY *", "-ERR QUEUE LATENCY does not support wildcards")
	if did := fmt.Sprint(w.did); did != "[pause queue:default pause queue:http resume queue:default]" {
		t.Errorf("it did %s", did)
	}
	var latencies map[string]float64
	w.locked(func() { w.ready[0].ArrivedAt = time.Now().Add(-time.Minute) })
	if text := c.asks("QUEUE LATENCY default empty a/b"); json.Unmarshal([]byte(text), &latencies) != nil ||
		len(latencies) != 3 || latencies["default"] < 60 || latencies["default"] > 90 || latencies["empty"] != 0 {
		t.Errorf("the latencies are %s", text)
	}
	c.fetches("job-one-1")
	c.is("QUEUE REMOVE default", "+OK")
	if q := w.queues["default"]; len(w.ready) != 0 || q.Faktory || q.Name == "" {
		t.Errorf("a removed queue whose job runs: %+v, %d wait", q, len(w.ready))
	}
	if text := c.asks("INFO"); !strings.Contains(text, `"queues":{}`) {
		t.Errorf("INFO has %s", text)
	}
	c.is(`ACK {"jid":"job-one-1"}`, "+OK")
	c.is("QUEUE REMOVE default", "+OK")
	if _, there := w.queues["default"]; there {
		t.Error("a removed queue is there")
	}
}

// FLUSH leaves nothing of the Faktory clients' jobs, and all that others have.
func TestFlush(t *testing.T) {
	w := newWorld(t)
	w.queues["http"] = job.Queue{Name: "http"}
	_, _ = w.Submit(t.Context(), job.Submission{Options: job.Options{Queue: "http"}})
	w.dead = []job.DeadLetter{
		{Job: job.Job{ID: "dead-of-http-8", Options: job.Options{Queue: "http"}}},
		{Job: job.Job{ID: "dead-of-default-9", Options: job.Options{Queue: "default"}}},
	}
	s := w.serve()
	c := dial(t, s, `"wid":"w1",`)
	c.pushes("job-one-1", "job-two-2")
	c.is(`PUSH {"jid":"job-three","jobtype":"T","args":[],"at":"`+time.Now().Add(time.Hour).Format(time.RFC3339)+`"}`,
		"+OK")
	c.fetches("job-one-1")
	c.is("FLUSH", "+OK")
	if len(w.ready) != 1 || len(w.waiting) != 0 || len(w.leases) != 0 || len(w.dead) != 1 || len(w.queues) != 1 {
		t.Errorf("left: %d ready, %d scheduled, %d running, %d dead, %d queues", len(w.ready), len(w.waiting),
			len(w.leases), len(w.dead), len(w.queues))
	}
	if text := c.asks("INFO"); !strings.Contains(text, `"total_processed":0`) {
		t.Errorf("INFO has %s", text)
	}
	c.is(`ACK {"jid":"job-one-1"}`, "+OK")
}

func TestMutate(t *testing.T) {
	w := newWorld(t)
	w.queues["http"] = job.Queue{Name: "http"}
	s := w.serve()
	c := dial(t, s, "")
	later := time.Now().Add(time.Hour).Format(time.RFC3339)
	give := func() {
		w.locked(func() { w.made, w.waiting, w.dead, w.did = 0, nil, nil, nil })
		for i, typ := range []string{"Foo", "Bar", "Foo"} {
			c.is(fmt.Sprintf(`PUSH {"jid": "job-%05d","jobtype": "%s","args": ["uid:%d"],"at":"%s"}`, i+1, typ, i+1, later),
				"+OK")
		}
		_, _ = w.Submit(t.Context(), job.Submission{
			Type: "Foo", Options: job.Options{Queue: "http"}, RunAt: time.Now().Add(time.Hour),
		})
		w.locked(func() {
			w.waiting[2].RetryCount = 1
			for i := range w.waiting {
				d := job.DeadLetter{Job: w.waiting[i]}
				d.ID = job.ID(fmt.Sprintf("dead-%d", i+5))
				w.dead = append(w.dead, d)
			}
		})
	}
	for _, one := range []struct{ text, did string }{
		{`{"cmd":"clear","target":"scheduled"}`, "cancel 1 cancel 2"},
		{`{"cmd":"clear","target":"retries","filter":{"jids":["x"]}}`, "cancel 3"},
		{`{"cmd":"discard","target":"scheduled","filter":{"jobtype":"Foo"}}`, "cancel 1"},
		{`{"cmd":"kill","target":"scheduled","filter":{"jids":["job-00002","job-00003"]}}`, "kill 2"},
		{`{"cmd":"kill","target":"retries"}`, "kill 3"},
		{`{"cmd":"requeue","target":"retries","filter":{"regexp":"*uid:3*"}}`, "hasten 3"},
		{`{"cmd":"requeue","target":"scheduled","filter":{"regexp":"*\"jobtype\":\"B*"}}`, "hasten 2"},
		{`{"cmd":"requeue","target":"scheduled","filter":{"regexp":"*uid:*","jobtype":"Foo"}}`, "hasten 1"},
		{`{"cmd":"requeue","target":"dead","filter":{"jids":["job-00001"]}}`, "requeue 5"},
		{`{"cmd":"discard","target":"dead"}`, "dismiss 5 dismiss 6 dismiss 7"},
		{`{"cmd":"clear","target":"dead"}`, "dismiss 5 dismiss 6 dismiss 7"},
		{`{"cmd":"kill","target":"dead"}`, ""},
	} {
		give()
		c.is("MUTATE "+one.text, "+OK")
		if did := strings.Join(w.did, " "); did != one.did {
			t.Errorf("%s: it did %s, want %s", one.text, did, one.did)
		}
	}
	c.is(`MUTATE {"cmd":"x","target":"dead"}`, "-ERR unknown mutate operation")
	c.is(`MUTATE {"cmd":"kill","target":"x"}`, "-ERR invalid target for mutation command")
	if got := c.asks(`MUTATE x`); !strings.HasPrefix(got, "-ERR invalid format") {
		t.Errorf("no JSON: %s", got)
	}
}

// What a key may not do is refused, and changes nothing.
func TestRights(t *testing.T) {
	w := newWorld(t)
	w.open = false
	w.keys["submit"] = key{job.Caller{Key: job.Key{Role: job.RoleSubmit, Tiers: []job.Tier{job.Unpaid}}}, []string{"p"}}
	w.keys["worker"] = key{job.Caller{Key: job.Key{Role: job.RoleWorker, Queues: []string{"mine"}}}, []string{"p"}}
	w.keys["any"] = key{job.Caller{Key: job.Key{Role: job.RoleWorker, Rate: 2}}, []string{"p"}}
	w.keys["admin"] = key{job.Caller{Key: job.Key{Role: job.RoleAdmin}}, []string{"p"}}
	w.queues["other"] = job.Queue{
		Name: "other", Faktory: true, Types: []string{"T"}, Schemas: map[string]string{"T": "uid"},
	}
	s := w.serve()
	as := map[string]*client{}
	for user := range w.keys {
		c, hi := connects(t, s)
		if got := proves(c, hi, user, "p", 2); got != "+OK" {
			t.Fatalf("%s: %s", user, got)
		}
		as[user] = c
	}
	const denied = "-ERR not allowed for this key"
	for _, one := range []struct{ user, command, want string }{
		{"submit", `PUSH {"jid":"12345678","jobtype":"T","args":["uid"],"queue":"other"}`, "+OK"},
		{"submit", `PUSH {"jid":"12345678","jobtype":"T","args":[],"queue":"other"}`,
			"-ERR the job does not fit the schema of its queue: args: lacks uid"},
		{"submit", `PUSH {"jid":"12345678","jobtype":"U","args":[],"queue":"other"}`,
			"-ERR the queue other takes no jobs of this jobtype"},
		{"submit", `PUSH {"jid":"12345678","jobtype":"T","args":[],"custom":{"tier":"paid"}}`, denied},
		{"submit", `PUSH {"jid":"12345678","jobtype":"T","args":[],"queue":"new"}`,
			"-ERR there is no queue new, and this key declares none"},
		{"submit", "FETCH other", denied}, {"submit", "FLUSH", denied}, {"submit", "QUEUE REMOVE other", denied},
		{"submit", `MUTATE {"cmd":"clear","target":"dead"}`, denied},
		{"worker", "FETCH other", denied}, {"worker", "FETCH mine other", denied},
		{"worker", `PUSH {"jid":"12345678","jobtype":"T","args":["uid"],"queue":"other"}`, denied},
		{"worker", "FLUSH", denied}, {"worker", "QUEUE PAUSE mine", denied},
		{"any", "FETCH nowhere", "-ERR there is no queue nowhere, and this key declares none"},
		{"any", "PUSHB [1,2,3]", "-ERR too many requests, try again in 3 s"},
		{"admin", "FLUSH", denied}, // it needs the setting, too
		{"admin", "FETCH main", "-ERR queue is not valid: main is there without a declaration"},
		{"admin", `PUSH {"jid":"12345678","jobtype":"T","args":[],"queue":"main"}`,
			"-ERR the queue main is for the job types of the server"},
		{"admin", `PUSH {"jid":"12345678","jobtype":"T","args":[],"queue":"a b"}`,
			"-ERR queue is not valid: a name has 1 to 80 of A-Z a-z 0-9 . _ : - and begins with a letter or a digit"},
		{"admin", `PUSH {"jid":"12345678","jobtype":"T","args":[],"queue":"new"}`, "+OK"},
	} {
		if got := as[one.user].asks(one.command); got != one.want {
			t.Errorf("%s: %.80s: %s, want %s", one.user, one.command, got, one.want)
		}
	}
	for user, want := range map[string]string{
		"submit": `"queues":{}`, "worker": `"queues":{}`, "any": `"queues":{"new":1,"other":1}`,
		"admin": `"queues":{"new":1,"other":1}`,
	} {
		if got := as[user].asks("INFO"); !strings.Contains(got, want) {
			t.Errorf("%s: INFO has %s", user, got)
		}
	}
	if got := as["worker"].asks("QUEUE LATENCY other"); got != `{"other":0}` {
		t.Errorf("the latency of another's queue: %s", got)
	}
}

// A job that was pushed with a retry of 0 leaves no dead letter, one with -1 does.
func TestEphemeral(t *testing.T) {
	w := newWorld(t)
	s := w.serve()
	c := dial(t, s, `"wid":"w1",`)
	for i, retry := range []int{0, -1} {
		jid := fmt.Sprintf("job-%05d", i)
		c.is(fmt.Sprintf(`PUSH {"jid":%q,"jobtype":"T","args":[],"retry":%d}`, jid, retry), "+OK")
		c.fetches(jid)
		c.is(fmt.Sprintf(`FAIL {"jid":%q}`, jid), "+OK")
	}
	eventually(t, "the first is dismissed", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return slices.Contains(w.did, "dismiss 1")
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Error(err)
	}
	if len(w.dead) != 1 || len(w.did) != 1 {
		t.Errorf("%d dead letters; it did %v", len(w.dead), w.did)
	}
}

package client

import (
	"slices"
	"testing"

	"github.com/tierq/tierq/internal/archive/archivetest"
	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/job"
)

// A push is refused, or its outcome is unknown, as the gateway's text says.
func TestPushed(t *testing.T) {
	for _, c := range []struct {
		reply faktoryReply
		fate  check.Fate
		code  string
	}{
		{faktoryReply{'+', "OK"}, check.OK, ""},
		{faktoryReply{'-', "ERR outcome unknown, the job may have been accepted"}, check.Unknown, "OUTCOME_UNKNOWN"},
		{faktoryReply{'-', "ERR internal error"}, check.Unknown, "OUTCOME_UNKNOWN"},
		{faktoryReply{'-', "ERR queue is full, try again in 2 s"}, check.Fail, "QUEUE_FULL"},
		{faktoryReply{'-', "ERR this key has as many jobs as it may have, try again in 1 s"}, check.Fail, "RATE_LIMITED"},
		{faktoryReply{'-', "ERR unavailable, try again in 1 s"}, check.Fail, "SYSTEM_UNHEALTHY"},
		{faktoryReply{'-', "ERR no such tier: x"}, check.Fail, "ERR no such tier: x"},
	} {
		if fate, _, code := pushed(c.reply); fate != c.fate || code != c.code {
			t.Errorf("%q: %s %q", c.reply.text, fate, code)
		}
	}
}

// A push gets its job's id from whoever ran the job, or from the dead letter. The runs and calls of Faktory workers get
// their generation from the outcomes.
func TestNamePushed(t *testing.T) {
	t.Parallel()
	archivetest.EachStore(t, func(t *testing.T, s *archivetest.Store) {
		const ran, dead = job.ID("019de340-01fe-7a58-be69-567cd7d6b700"), job.ID("019de340-01fe-7a58-be69-567cd7d6b800")
		_, err := s.DB.ExecContext(t.Context(), "INSERT INTO failed_jobs (job_id, generation, tier, type, owner, "+
			"total_retries, max_retries, attempts, failure_cause, last_error, trace_id, payload) VALUES (?, 1, 'PAID', "+
			"'ELSEWHERE', '', 1, 1, 2, 'HEARTBEAT_STOPPED', '', '', ?)", dead,
			[]byte(`{"jid":"chaos-1-2","args":[{"key":"1-2"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		push := func(key string) check.Op { return check.Op{Kind: "submit", Key: key, Fate: check.OK} }
		e := check.Evidence{
			Ops: []check.Op{push("1-1"), push("1-2"), push("1-3"), {Kind: "submit", Key: "1-1", Fate: check.Fail}},
			Runs: []check.Run{{ID: ran, Key: "1-1", Attempt: 2}, {ID: ran, Key: "1-1", Attempt: 3},
				{ID: ran, Key: "1-1", Attempt: 4}},
			Calls:    []check.WorkerCall{{ID: ran, Attempt: 3}, {ID: dead, Attempt: 1}},
			Outcomes: []check.Outcome{{ID: ran, Generation: 1, Attempt: 2}, {ID: ran, Generation: 2, Attempt: 3}},
		}
		if err := NamePushed(t.Context(), s.DB, &e); err != nil {
			t.Fatal(err)
		}
		var ids []job.ID
		for i := range e.Ops {
			ids = append(ids, e.Ops[i].ID)
		}
		if !slices.Equal(ids, []job.ID{ran, dead, "", ""}) {
			t.Errorf("the pushes made %q", ids)
		}
		var generations []int
		for i := range e.Runs {
			generations = append(generations, e.Runs[i].Generation)
		}
		for i := range e.Calls {
			generations = append(generations, e.Calls[i].Generation)
		}
		if !slices.Equal(generations, []int{1, 2, 2, 2, 1}) {
			t.Errorf("generations %v", generations)
		}
	})
}

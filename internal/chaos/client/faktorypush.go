package client

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/job"
)

// pushedJob is a job as a Faktory client pushes it.
type pushedJob struct {
	Jid       string            `json:"jid"`
	Queue     string            `json:"queue"`
	Type      string            `json:"jobtype"`
	Args      []json.RawMessage `json:"args"`
	CreatedAt time.Time         `json:"created_at"`
	Reserve   int               `json:"reserve_for"` // seconds
	Custom    map[string]string `json:"custom"`
}

// jidPrefix begins the jid of a pushed job. A key follows.
const jidPrefix = "chaos-"

// pushes says whether a job is to be pushed over Faktory's protocol: half of the outsiders' jobs are. It takes from the
// job what a push has not.
func (l *Load) pushes(w *wish, dice *rand.Rand) bool {
	if len(l.Faktory.Keys) == 0 || w.body.Type != check.Elsewhere || dice.IntN(2) == 0 {
		return false
	}
	text, _ := json.Marshal(pushedJob{ // texts and numbers only: it cannot fail
		Jid: jidPrefix + w.op.Key, Queue: check.Queue, Type: check.Elsewhere, Args: []json.RawMessage{w.body.Payload},
		CreatedAt: time.Now().UTC(), Reserve: 60, Custom: map[string]string{"tier": strings.ToLower(string(w.op.Tier))},
	})
	w.body.Payload, w.pushed = text, true
	w.op.Sum, w.op.Trace, w.op.Once, w.op.Delay = Sum(text), "", "", 0
	l.askedFor(w.op.Key, check.Asked{Owner: l.Faktory.Keys[w.key].ID})
	return true
}

// push pushes one job over a connection of its own. It is never repeated: two pushes of one jid are two jobs.
func (l *Load) push(ctx context.Context, w *wish, dice *rand.Rand) {
	op := &w.op
	addrs := l.Faktory.Addrs()
	op.Server = addrs[dice.IntN(len(addrs))]
	op.Sent, op.Fate = time.Now(), check.Unknown
	l.asked(op)
	l.OverFaktory.Pushed.Add(1)
	defer func() {
		op.Answered = time.Now()
		l.wrote(op)
	}()
	c, err := dialFaktory(ctx, op.Server, l.Faktory.Keys[w.key], "", l.Timeout)
	if err != nil {
		op.Fate = check.Fail
		return
	}
	defer c.close()
	if c.say("PUSH", string(w.body.Payload)) != nil {
		return
	}
	if l.sometimes(dice, hangsUp) {
		l.OverFaktory.Dropped.Add(1)
		wait(ctx, time.Duration(dice.IntN(10))*time.Millisecond)
		return
	}
	r, err := c.hear()
	if err != nil {
		return
	}
	op.Fate, op.Status, op.Code = pushed(r)
	_ = c.say("END", "")
}

// pushed returns what a client may conclude from the reply to its PUSH, as answers of HTTP would say it.
func pushed(r faktoryReply) (check.Fate, int, string) {
	says := func(text string) bool { return strings.HasPrefix(r.text, "ERR "+text) }
	switch {
	case r.kind == '+':
		return check.OK, http.StatusOK, ""
	case says("outcome unknown"), says("internal error"):
		return check.Unknown, http.StatusGatewayTimeout, "OUTCOME_UNKNOWN"
	case says("queue is full"):
		return check.Fail, http.StatusTooManyRequests, "QUEUE_FULL"
	case says("this key has as many jobs"):
		return check.Fail, http.StatusTooManyRequests, "RATE_LIMITED"
	case says("unavailable"):
		return check.Fail, http.StatusServiceUnavailable, "SYSTEM_UNHEALTHY"
	}
	return check.Fail, http.StatusBadRequest, r.text
}

const deadQuery = `SELECT job_id, payload FROM failed_jobs WHERE type = '` + check.Elsewhere + `'`

// NamePushed completes the evidence about Faktory's clients. The submit of a pushed job gets the job's id from whoever
// ran the job, or from its dead letter: the client was told none. The runs of Faktory workers and their calls get
// their generation from the outcomes: these workers are told none. Attempts are counted on over generations, and an
// outcome has the number of its last attempt.
func NamePushed(ctx context.Context, db *sql.DB, e *check.Evidence) error {
	ids := map[string]job.ID{} // by key
	for i := range e.Runs {
		ids[e.Runs[i].Key] = e.Runs[i].ID
	}
	err := rows(ctx, db, deadQuery, func(scan func(...any) error) error {
		var id job.ID
		var payload []byte
		err := scan(&id, &payload)
		ids[readPayload(payload).Key] = id
		return err
	})
	if err != nil {
		return fmt.Errorf("read dead letters: %w", err)
	}
	for i := range e.Ops {
		if op := &e.Ops[i]; op.Kind == "submit" && op.Trace == "" && op.ID == "" && op.Fate == check.OK {
			op.ID = ids[op.Key]
		}
	}
	lasts := map[job.ID][]*check.Outcome{}
	for i := range e.Outcomes {
		lasts[e.Outcomes[i].ID] = append(lasts[e.Outcomes[i].ID], &e.Outcomes[i])
	}
	generation := func(id job.ID, attempt int) int {
		for _, o := range lasts[id] { // by generation
			if attempt <= o.Attempt {
				return o.Generation
			}
		}
		return max(len(lasts[id]), 1)
	}
	for i := range e.Runs {
		if r := &e.Runs[i]; r.Generation == 0 {
			r.Generation = generation(r.ID, r.Attempt)
		}
	}
	for i := range e.Calls {
		if c := &e.Calls[i]; c.Generation == 0 {
			c.Generation = generation(c.ID, c.Attempt)
		}
	}
	return nil
}

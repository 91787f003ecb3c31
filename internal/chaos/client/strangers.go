package client

import (
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/job"
)

// strangers is the share of the polls that come with another caller's key.
const strangers = 0.05

// key returns the text of the nth API key; "" = the servers are open.
func (l *Load) key(n int) string {
	if len(l.Keys) == 0 {
		return ""
	}
	return l.Keys[n].Text
}

// intrude polls a job with the key of another caller. In one of ten cases it sends a cancel instead.
func (l *Load) intrude(ctx context.Context, id job.ID, dice *rand.Rand) {
	if len(l.Keys) < 2 {
		return
	}
	key := l.key((l.known.key(id) + 1) % len(l.Keys))
	s := check.Stranger{ID: id, Method: http.MethodGet}
	url := l.base(dice) + "/result/poll?jobId=" + string(id)
	if dice.IntN(10) == 0 {
		s.Method, url = http.MethodDelete, l.base(dice)+"/api/jobs/"+string(id)
	}
	s.HTTP = l.call(ctx, s.Method, url, key, nil, nil).status
	s.At = time.Now()
	l.strange(s)
}

// event is the body of a callback.
type event struct {
	Type string
	Data struct {
		job.BatchCounts            // of a batch
		JobID           job.ID     `json:"jobId"`
		Generation      int        `json:"generation"`
		Status          job.Status `json:"status"`
	} `json:"data"`
}

// ServeHTTP answers the callbacks and records them. It refuses the first attempts of some, so that they are
// repeated.
func (l *Load) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	var e event
	if err != nil || json.Unmarshal(body, &e) != nil {
		http.Error(w, "cut off", http.StatusInternalServerError)
		return
	}
	attempt, _ := strconv.Atoi(r.Header.Get("X-Job-Attempt"))
	if strings.HasPrefix(e.Type, "batch.") {
		l.hearRound(w, r, e.Type, e.Data.BatchCounts, attempt)
		return
	}
	c := check.Call{ID: e.Data.JobID, Generation: e.Data.Generation, Status: e.Data.Status, At: time.Now(),
		HTTP: http.StatusOK, Attempt: attempt}
	if named := string(c.ID) + "_" + strconv.Itoa(c.Generation); named != r.Header.Get("Webhook-Id") {
		c.ID = job.ID(r.Header.Get("Webhook-Id") + " with the body of " + named) // no job has such an id
	}
	if c.Attempt == 1 && strings.HasSuffix(string(c.ID), "0") || c.Attempt == 2 && strings.HasSuffix(string(c.ID), "10") {
		c.HTTP = http.StatusInternalServerError
	}
	l.heard(c)
	w.WriteHeader(c.HTTP)
}

// hearRound answers and records the callback of a batch. It refuses the first attempts of some.
func (l *Load) hearRound(w http.ResponseWriter, r *http.Request, what string, n job.BatchCounts, attempt int) {
	c := check.RoundCall{Type: what, Counts: n, Attempt: attempt, At: time.Now(), HTTP: http.StatusOK}
	if named := string(n.BatchID) + "_" + strconv.Itoa(n.Round); named != r.Header.Get("Webhook-Id") {
		c.Type = r.Header.Get("Webhook-Id") + " with the body of " + named // no callback has such a type
	}
	if attempt == 1 && n.Round%2 == 0 {
		c.HTTP = http.StatusInternalServerError
	}
	l.heardRound(c)
	w.WriteHeader(c.HTTP)
}

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/chaos/client"
	"github.com/tierq/tierq/internal/job"
)

// The faults of this file come through the API: jobs that kill or hang, and clients that hang up. Their submits
// belong to the history.

// submit sends one job to a random server, records the op in the history and returns it. The client hangs up after
// within.
func (w *wound) submit(ctx context.Context, tier job.Tier, p client.Payload, within time.Duration) check.Op {
	p.File = w.runs()
	payload, _ := json.Marshal(p) // texts and numbers only: it cannot fail
	op := check.Op{
		Kind: "submit", Key: p.Key, Tier: tier, Type: "CHAOS", Sum: client.Sum(payload), Trace: p.Key, Fails: p.Fail,
		Crashes: p.Crash, Hangs: p.HangMs > 0,
		Sent: time.Now(), Fate: check.Unknown, Server: w.bases()[w.rng.IntN(len(w.servers))],
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	url := op.Server + "/" + strings.ToLower(string(tier)) + "/submit"
	op.Status, op.ID, op.Code = send(ctx, url, w.admin, op.Trace, `{"type":"CHAOS","payload":`+string(payload)+`}`)
	op.Answered = time.Now()
	switch {
	case op.Status == http.StatusAccepted:
		op.Fate = check.OK
	case op.Status >= 400 && op.Status < 500, op.Status == http.StatusServiceUnavailable:
		op.Fate = check.Fail
	}
	w.notes.Lock()
	defer w.notes.Unlock()
	w.cluster.ops = append(w.cluster.ops, op)
	return op
}

var hurried = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Second}}

// send posts a body. Status 0 means that no complete answer came, so that the outcome is unknown.
func send(ctx context.Context, url, key, trace, body string) (status int, id job.ID, code string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, "", ""
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Trace-Id", trace)
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := hurried.Do(req)
	if err != nil {
		return 0, "", ""
	}
	defer resp.Body.Close()
	var answer struct {
		Data struct {
			JobID job.ID `json:"jobId"`
		} `json:"apiResponseData"`
		JobID     job.ID `json:"jobId"`
		ErrorCode string `json:"errorCode"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return 0, "", "" // cut off: the status alone is not an answer
	}
	return resp.StatusCode, max(answer.Data.JobID, answer.JobID), answer.ErrorCode
}

// insist submits jobs made by payload until one is accepted, for at most 8 s.
func (w *wound) insist(ctx context.Context, tier job.Tier, payload func() client.Payload) (op check.Op) {
	for end := time.Now().Add(8 * time.Second); op.Fate != check.OK && time.Now().Before(end) &&
		hold(ctx, 200*time.Millisecond); {
		op = w.submit(ctx, tier, payload(), 5*time.Second)
	}
	return op
}

// poisoned is a fault: a job kills each process that runs it, one to three times. The lanes of those servers
// record the kills.
func poisoned(ctx context.Context, w *wound) (string, error) {
	op := w.insist(ctx, w.tier(), func() client.Payload {
		return client.Payload{Key: w.key("poison"),
			Crash: 1 + w.rng.IntN(3)}
	})
	if op.Fate != check.OK {
		return fmt.Sprintf("answered %d %s", op.Status, op.Code), errMissed
	}
	return "", errElsewhere
}

// hanging is a fault: in each attempt, a job works on for 20 s whatever its context says. That is longer than the
// watches take to find it.
func hanging(ctx context.Context, w *wound) (string, error) {
	op := w.insist(ctx, job.Public, func() client.Payload { return client.Payload{Key: w.key("hang"), HangMs: 20_000} })
	if op.Fate != check.OK {
		return fmt.Sprintf("answered %d %s", op.Status, op.Code), errMissed
	}
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end) && hold(ctx, 100*time.Millisecond); {
		for _, base := range w.bases() {
			if over := w.overdue(ctx, base, op.ID); over != "" {
				w.target = ""
				return fmt.Sprintf("%s worked on after %s", op.ID, over), nil
			}
		}
	}
	return "nobody said that it took too long", errMissed
}

// overdue returns the first cause in a job's history that is about time: MaxTimeExceeded or HeartbeatStopped. It
// returns "" if there is none, or if the server does not answer within 2 s.
func (c *cluster) overdue(ctx context.Context, base string, id job.ID) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var found struct {
		History []struct {
			Cause job.Cause `json:"cause"`
		} `json:"history"`
	}
	_, _ = c.ask(ctx, base, http.MethodGet, "/jobs/"+string(id), c.admin, "", &found) // asked again
	for _, attempt := range found.History {
		if attempt.Cause == job.MaxTimeExceeded || attempt.Cause == job.HeartbeatStopped {
			return string(attempt.Cause)
		}
	}
	return ""
}

// hungUp is a fault: clients submit jobs and hang up before the answer.
func hungUp(ctx context.Context, w *wound) (string, error) {
	const clients = 8
	left := make([]int, clients)
	waits := make([][]time.Duration, clients) // drawn here: random numbers are not safe for several goroutines
	for i := range waits {
		for range 10 {
			waits[i] = append(waits[i], w.between(200*time.Microsecond, 6*time.Millisecond))
		}
	}
	keys := w.key("abort")
	var group sync.WaitGroup
	for i := range clients {
		mine := *w
		mine.rng = childRNG(w.rng)
		group.Go(func() {
			for n, wait := range waits[i] {
				op := mine.submit(ctx, mine.tier(), client.Payload{Key: fmt.Sprintf("%s-%d-%d", keys, i, n), SleepMs: 1}, wait)
				if op.Fate == check.Unknown {
					left[i]++
				}
				hold(ctx, 20*time.Millisecond)
			}
		})
	}
	group.Wait()
	sum := 0
	for _, n := range left {
		sum += n
	}
	return counted(sum, fmt.Sprintf("of %d clients' submits were given up unanswered", clients))
}

func (w *wound) tier() job.Tier {
	all := plans()
	return all[w.rng.IntN(len(all))].Tier
}

// key returns the key of a fault's job. No other job of the run has the same key.
func (w *wound) key(what string) string { return fmt.Sprintf("%s-%016x", what, w.rng.Uint64()) }

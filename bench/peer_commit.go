package main

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
)

// commits is a group commit over HTTP at its barest: one call to Redis at a time takes all that waits.
type commits struct {
	q       *queue.Queue
	waiting chan *commit
}

type commit struct {
	job.Submission
	done chan error
}

func (c *commits) run(ctx context.Context) {
	for {
		var group []*commit
		select {
		case one := <-c.waiting:
			group = append(group, one)
		case <-ctx.Done():
			return
		}
		for more := true; more && len(group) < job.MaxBatch; {
			select {
			case one := <-c.waiting:
				group = append(group, one)
			default:
				more = false
			}
		}
		batch := make([]job.Submission, len(group))
		for i, one := range group {
			batch[i] = one.Submission
		}
		err := submitAll(ctx, c.q, batch)
		for _, one := range group {
			one.done <- err
		}
	}
}

func (c *commits) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Type    string
		Payload json.RawMessage
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	one := &commit{submission(in.Type, in.Payload), make(chan error, 1)}
	c.waiting <- one
	if err := <-one.done; err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	body := `{"apiResponseData":{"jobId":"` + string(one.ID) + `","currentJobStatus":"PENDING"}}`
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_, _ = w.Write([]byte(body)) // a client that is gone is told nothing
}

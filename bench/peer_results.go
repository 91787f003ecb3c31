package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// results submits over HTTP, waits by a long-poll, and then asks MariaDB until the row can be seen; a server process
// with all roles.
func (t *tierq) results(ctx context.Context, n int) (readable, durable []time.Duration, err error) {
	if t.only {
		return nil, nil, errNone
	}
	t.used = true
	s, err := t.l.launch(ctx, "results", "api,worker,recovery", t.env)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		_, stopping := s.stop()
		err = errors.Join(err, stopping)
	}()
	row, err := t.l.db.PrepareContext(ctx, "SELECT COUNT(*) FROM "+t.database+".job_results WHERE job_id = ?")
	if err != nil {
		return nil, nil, fmt.Errorf("prepare: %w", err)
	}
	defer row.Close()
	for i := range n + warmSubmits {
		sent := time.Now()
		id, err := submitted(ctx, s.addr)
		if err != nil {
			return nil, nil, err
		}
		if status, err := polled(ctx, s.addr, id); err != nil || status != "COMPLETED" {
			return nil, nil, errors.Join(fmt.Errorf("job %s is %s", id, status), err)
		}
		read := time.Since(sent)
		for there := 0; there == 0; {
			if err := row.QueryRowContext(ctx, id).Scan(&there); err != nil {
				return nil, nil, fmt.Errorf("look for the row: %w", err)
			}
			if time.Since(sent) > patience {
				return nil, nil, fmt.Errorf("job %s has no row", id)
			}
		}
		if i >= warmSubmits {
			readable, durable = append(readable, read), append(durable, time.Since(sent))
		}
	}
	return readable, durable, nil
}

// submitted submits a job that does nothing and returns its id.
func submitted(ctx context.Context, addr string) (id string, err error) {
	var answer struct {
		Data struct{ JobID string } `json:"apiResponseData"`
	}
	err = call(ctx, http.MethodPost, "http://"+addr+"/paid/submit", `{"type":"SIMULATION","payload":`+nothing+`}`,
		http.StatusAccepted, &answer)
	return answer.Data.JobID, err
}

// polled waits for a job's end and returns its status.
func polled(ctx context.Context, addr, id string) (status string, err error) {
	var answer struct {
		Data struct{ CurrentJobStatus string } `json:"apiResponseData"`
	}
	err = call(ctx, http.MethodGet, "http://"+addr+"/result/poll?wait=30s&jobId="+id, "", http.StatusOK, &answer)
	return answer.Data.CurrentJobStatus, err
}

func call(ctx context.Context, method, url, body string, want int, answer any) error {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != want {
		return fmt.Errorf("%s %s: answered %s", method, url, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// claim hands out jobs, as the contract says.
func (f *fake) claim(ctx context.Context, body []byte) map[string]any {
	var c struct {
		Lease   *json.RawMessage  `json:"leaseSeconds"`
		Max     int               `json:"max"`
		Wait    float64           `json:"wait"`
		ID      string            `json:"claimId"`
		Repeat  int               `json:"repeat"`
		Reports []json.RawMessage `json:"reports"`
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.understand(body, &c)
	if c.Lease != nil {
		f.wrongf("a claim asks for a lease of %s s: the default is the server's", *c.Lease)
	}
	reported := f.take(c.Reports)
	again := f.claims[c.ID]
	switch {
	case again == nil:
		again = &claimed{copies: map[int]bool{}}
		f.claims[c.ID] = again
	case again.copies[c.Repeat]:
		f.wrongf("claim %s says repeat %d twice", c.ID, c.Repeat)
	case c.Repeat < again.repeat: // a copy that was given up arrives after a later one
		return map[string]any{"state": "run", "claimId": c.ID, "retryAfterMs": 0, "reported": reported, "jobs": []any{}}
	}
	again.repeat, again.copies[c.Repeat] = c.Repeat, true
	jobs := []any{}
	for _, lease := range again.leases {
		if j := f.leases[lease]; j != nil && j.lease == lease && j.report == nil {
			j.until = time.Now().Add(f.leaseFor) // as the server renews it
			jobs = append(jobs, j)
		}
	}
	f.asking++
	defer func() { f.asking-- }()
	for end := time.Now().Add(time.Duration(c.Wait * float64(time.Second))); len(jobs) == 0; {
		f.expire()
		for i := 0; i < len(f.queue) && len(jobs) < c.Max; {
			j := f.queue[i]
			if j.holds != nil && j.holds() {
				i++
				continue
			}
			f.queue = slices.Delete(f.queue, i, i+1)
			f.hand(j)
			j.claims = append(j.claims, again)
			again.leases = append(again.leases, j.lease)
			jobs = append(jobs, j)
		}
		if len(jobs) > 0 || ctx.Err() != nil || !time.Now().Before(end) {
			break
		}
		f.mu.Unlock()
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
		}
		f.mu.Lock()
	}
	return map[string]any{"state": "run", "claimId": c.ID, "retryAfterMs": 0, "reported": reported, "jobs": jobs}
}

// hand gives a job a lease. f.mu is held.
func (f *fake) hand(j *job) {
	now := time.Now()
	j.attempt++
	j.lease = fmt.Sprintf("%s/%d", j.id, j.attempt)
	j.handed, j.until, j.ends = now, now.Add(f.leaseFor), now.Add(j.endsIn)
	f.leases[j.lease] = j
}

// left puts into an answer what is left of its jobs' times. f.mu is held.
func (f *fake) left(answer map[string]any) {
	jobs, _ := answer["jobs"].([]any)
	for i := range jobs {
		j := jobs[i].(*job)
		one := map[string]any{
			"jobId": j.id, "type": j.typ, "queue": "conformance", "tier": "PAID", "payload": j.payload,
			"attempt": j.attempt, "retryCount": 0, "maxRetries": 5, "generation": 1, "checkpoint": nil, "traceId": nil,
			"traceparent": nil, "lease": j.lease, "leaseForMs": time.Until(j.until).Milliseconds(),
			"heartbeatEveryMs": f.every.Milliseconds(), "endsInMs": time.Until(j.ends).Milliseconds(),
		}
		for name, value := range j.more {
			one[name] = value
		}
		jobs[i] = one
	}
}

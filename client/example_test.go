package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/tierq/tierq/client"
	"github.com/tierq/tierq/client/tierqtest"
)

// A first job takes two lines.
func Example() {
	server := tierqtest.Start() // in place of a tierq server
	defer server.Close()
	ctx := context.Background()

	c := client.New(server.URL())
	id, err := c.Submit(ctx, client.Paid, "SEND_EMAIL",
		map[string]any{"to": "ada@example.com", "subject": "Hello", "body": "Hi Ada"})

	fmt.Println(id, err)
	// Output: 019de340-01fe-7a58-be69-000000000001 <nil>
}

// Wait returns when the job has ended; its result is JSON.
func ExampleClient_Wait() {
	server := tierqtest.Start()
	defer server.Close()
	server.Handle("SEND_EMAIL", func(tierqtest.Job) (any, error) { // a worker would do this
		return map[string][]string{"accepted": {"ada@example.com"}}, nil
	})
	c := client.New(server.URL())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	id, err := c.Submit(ctx, client.Unpaid, "SEND_EMAIL",
		map[string]any{"to": "ada@example.com", "subject": "Hello", "body": "Hi Ada"})
	if err != nil {
		fmt.Println("not accepted:", err)
		return
	}
	done, err := c.Wait(ctx, id)
	if failed, ok := errors.AsType[*client.JobFailedError](err); ok {
		fmt.Println("failed for good:", failed.Poll.FailureCause)
		return
	}
	if err != nil {
		fmt.Println("not known:", err)
		return
	}
	var result struct{ Accepted []string }
	if err := done.Decode(&result); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(done.Status, result.Accepted)
	// Output: COMPLETED [ada@example.com]
}

// Watch reports each change of a job's status.
func ExampleClient_Watch() {
	server := tierqtest.Start()
	defer server.Close()
	c := client.New(server.URL())
	ctx := context.Background()
	id, err := c.Submit(ctx, client.Public, "REPORT", nil)
	if err != nil {
		fmt.Println("not accepted:", err)
		return
	}
	_, err = c.Watch(ctx, id, func(p client.Poll) {
		switch fmt.Println(p.Status); p.Status { // a worker would do this
		case client.Pending:
			server.Begin(id)
		case client.Processing:
			server.Complete(id, map[string]int{"pages": 3})
		}
	})
	fmt.Println(err)
	// Output:
	// PENDING
	// PROCESSING
	// COMPLETED
	// <nil>
}

// A batch is one request; the server accepts or refuses each job separately.
func ExampleClient_SubmitBatch() {
	server := tierqtest.Start()
	defer server.Close()
	server.Types("SEND_EMAIL")
	c := client.New(server.URL())
	outcomes, err := c.SubmitBatch(context.Background(), client.Paid, []client.Submission{
		{Type: "SEND_EMAIL", Payload: map[string]any{"to": "ada@example.com", "subject": "Hello", "body": "Hi Ada"}},
		{Type: "NO_SUCH_TYPE"},
	})
	for _, o := range outcomes {
		fmt.Println(o.Status, errors.Is(o.Err, client.ErrInvalid))
	}
	fmt.Println(err)
	// Output:
	// PENDING false
	//  true
	// <nil>
}

// A gathering client sends the submits of many goroutines in few requests. Each call has its own job or error.
func ExampleGather() {
	server := tierqtest.Start()
	defer server.Close()
	server.Types("REPORT")
	c := client.New(server.URL(), client.Gather(true))
	var wait sync.WaitGroup
	for i := range 100 {
		wait.Go(func() {
			typ := "REPORT"
			if i == 42 {
				typ = "NO_SUCH_TYPE"
			}
			if _, err := c.Submit(context.Background(), client.Paid, typ, nil); err != nil {
				fmt.Println(i, err)
			}
		})
	}
	wait.Wait()
	fmt.Println(len(server.Jobs()), "jobs,", len(server.Requests()) < 100)
	// Output:
	// 42 submit: 422 UNKNOWN_JOB_TYPE: why UNKNOWN_JOB_TYPE
	// 99 jobs, true
}

// An idempotency key derived from the job's purpose makes one job, however often it is submitted.
func ExampleIdempotencyKey() {
	server := tierqtest.Start()
	defer server.Close()
	c := client.New(server.URL())
	for range 3 {
		id, err := c.Submit(context.Background(), client.Paid, "REPORT", nil, client.IdempotencyKey("order-4711"))
		fmt.Println(id, err)
	}
	// Output:
	// 019de340-01fe-7a58-be69-000000000001 <nil>
	// 019de340-01fe-7a58-be69-000000000001 <nil>
	// 019de340-01fe-7a58-be69-000000000001 <nil>
}

// A refused submit has made no job. Only after ErrOutcomeUnknown may there be one.
func ExampleError() {
	server := tierqtest.Start()
	defer server.Close()
	server.Refuse(1, tierqtest.Refusal{Code: "QUEUE_FULL", RetryAfter: 30 * time.Second})
	c := client.New(server.URL(), client.WithBackoff(100*time.Millisecond, 10*time.Second)) // less than the 30 s
	_, err := c.Submit(context.Background(), client.Public, "REPORT", nil)
	switch e, _ := errors.AsType[*client.Error](err); {
	case errors.Is(err, client.ErrOutcomeUnknown):
		fmt.Println("submit again, with the same key:", e.Key)
	case errors.Is(err, client.ErrQueueFull):
		fmt.Println("come again in", e.RetryAfter)
	case errors.Is(err, client.ErrInvalid):
		fmt.Println("mend the request:", e.Fields)
	}
	// Output: come again in 30s
}

// A receiver verifies callbacks with the public key that /api/me shows, which cannot sign, and remembers the
// events that it has received.
func ExampleWebhookVerifier() {
	verifier, err := client.NewWebhookVerifier("whpk_6kpsY+KcUgq+9VB7Ey7F+ZVHdq6+vnuSQh7qaRRG0iw=")
	if err != nil {
		fmt.Println(err)
		return
	}
	hook := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			http.Error(w, "too large", http.StatusRequestEntityTooLarge)
			return
		}
		event, err := verifier.JobEnded(r.Header, body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		fmt.Println(event.Data.JobID, event.Data.Status) // once for each Webhook-Id
	}
	answer := httptest.NewRecorder()
	hook(answer, httptest.NewRequest(http.MethodPost, "/hook", strings.NewReader(`{"type":"job.completed"}`)))
	fmt.Println(answer.Code, strings.TrimSpace(answer.Body.String()))
	// Output: 401 the message is not signed by a key of this receiver
}

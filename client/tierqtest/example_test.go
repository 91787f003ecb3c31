package tierqtest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tierq/tierq/client"
	"github.com/tierq/tierq/client/tierqtest"
)

// order is the program under test: it submits a mail for each order, once per order.
func order(ctx context.Context, c *client.Client, number string) error {
	_, err := c.Submit(ctx, client.Paid, "SEND_EMAIL", map[string]any{"subject": "Your order " + number},
		client.IdempotencyKey("order-"+number))
	return err
}

// A test looks at what a program submitted. In a test, tierqtest.New(t) takes the place of Start and Close.
func Example() {
	s := tierqtest.Start()
	defer s.Close()
	ctx := context.Background()

	err := order(ctx, s.Client(), "4711")
	again := order(ctx, s.Client(), "4711")

	fmt.Println(err, again)
	for _, j := range s.Jobs() {
		fmt.Println(j.Tier, j.Type, string(j.Payload), j.IdempotencyKey)
	}
	// Output:
	// <nil> <nil>
	// PAID SEND_EMAIL {"subject":"Your order 4711"} order-4711
}

// A handler does the work of a job type, so that a program gets results.
func ExampleServer_Handle() {
	s := tierqtest.Start()
	defer s.Close()
	type size struct{ Width int }
	s.Handle("RESIZE", func(j tierqtest.Job) (any, error) {
		var in size
		if err := j.Decode(&in); err != nil {
			return nil, err
		}
		return size{Width: 2 * in.Width}, nil
	})

	c, ctx := s.Client(), context.Background()
	id, err := c.Submit(ctx, client.Unpaid, "RESIZE", size{Width: 256})
	if err != nil {
		fmt.Println(err)
		return
	}
	done, err := c.Wait(ctx, id)
	fmt.Println(done.Status, string(done.Result), err)
	// Output: COMPLETED {"Width":512} <nil>
}

// The test ends a job when it likes to.
func ExampleServer_Fail() {
	s := tierqtest.Start()
	defer s.Close()
	c, ctx := s.Client(), context.Background()
	id, err := c.Submit(ctx, client.Public, "REPORT", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	s.Fail(id, errors.New("no space left"))

	_, err = c.Wait(ctx, id)
	if failed, ok := errors.AsType[*client.JobFailedError](err); ok {
		fmt.Println(failed.Poll.FailureCause, failed.Poll.LastError)
	}
	// Output: HANDLER_ERROR no space left
}

// While the server refuses, a program learns when to come again, and no job exists.
func ExampleServer_Refuse() {
	s := tierqtest.Start()
	defer s.Close()
	s.Refuse(1, tierqtest.Refusal{Status: http.StatusTooManyRequests, RetryAfter: 30 * time.Second})

	err := order(context.Background(), s.Client(), "4711")
	if e, ok := errors.AsType[*client.Error](err); ok {
		fmt.Println(errors.Is(err, client.ErrRateLimited), e.RetryAfter, len(s.Jobs()), "jobs")
	}
	// Output: true 30s 0 jobs
}

// A lost answer makes no second job: the client repeats its submit with the same idempotency key.
func ExampleServer_LoseAnswers() {
	s := tierqtest.Start()
	defer s.Close()
	s.LoseAnswers(2)

	err := order(context.Background(), s.Client(), "4711")
	fmt.Println(err, len(s.Jobs()), "job")
	// Output: <nil> 1 job
}

// importRows is the program under test: it imports rows, and sends one mail when all of them are in.
func importRows(ctx context.Context, c *client.Client, rows int) error {
	mail := &client.Then{Type: "SEND_EMAIL", Payload: map[string]any{"subject": "All rows are in."}}
	b, err := c.CreateBatch(ctx, client.NewBatch{Name: "import", Then: mail})
	if err != nil {
		return err
	}
	for n := range rows {
		if _, err := c.Submit(ctx, client.Unpaid, "ROW", n, client.InBatch(b.BatchID)); err != nil {
			return err
		}
	}
	_, err = c.SealBatch(ctx, b.BatchID)
	return err
}

// The last job of a batch is there when the batch is sealed and all its members have ended.
func ExampleServer_Batches() {
	s := tierqtest.Start()
	defer s.Close()
	if err := importRows(context.Background(), s.Client(), 2); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Batches()[0].State, len(s.Jobs()), "jobs")
	for _, row := range s.Jobs() {
		s.Complete(row.ID, nil)
	}
	mail := s.Jobs()[2]
	fmt.Println(s.Batches()[0].State, mail.Type, string(mail.Payload))
	// Output:
	// RUNNING 2 jobs
	// FINISHED SEND_EMAIL {"subject":"All rows are in."}
}

package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Worker is a worker that was heard of lately: the pool of a server process, or another program.
type Worker struct {
	Name      string    `json:"name"`
	Kind      string    `json:"kind"`  // server, or http for a program of your own
	State     string    `json:"state"` // what an operator asks of it: run, quiet or terminate
	Host      string    `json:"host"`
	PID       int       `json:"pid"`
	Version   string    `json:"version"`
	Language  string    `json:"language"`
	Slots     int       `json:"slots"` // 0 = it does not say
	Running   int       `json:"running"`
	Stuck     int       `json:"stuck"`
	StartedAt time.Time `json:"startedAt,omitzero"`
	SeenAt    time.Time `json:"seenAt,omitzero"`
	Queues    []string  `json:"queues,omitempty"` // from which it claims
}

// Workers lists the workers that were heard of lately, by name.
func (c *Client) Workers(ctx context.Context) ([]Worker, error) {
	got, _, err := fetch[struct {
		Items []Worker `json:"items"`
	}](ctx, c, call{verb: "workers", method: http.MethodGet, path: "admin/workers"})
	return got.Items, err
}

// QuietWorker makes a worker claim no more jobs, within a second or two. It finishes those that it has.
func (c *Client) QuietWorker(ctx context.Context, name string) (Worker, error) {
	return c.askWorker(ctx, name, "quiet")
}

// ResumeWorker lets a quiet worker claim again.
func (c *Client) ResumeWorker(ctx context.Context, name string) (Worker, error) {
	return c.askWorker(ctx, name, "resume")
}

// TerminateWorker makes a worker end: it finishes its jobs, or gives them back. A process of the server ends with all
// its roles.
func (c *Client) TerminateWorker(ctx context.Context, name string) (Worker, error) {
	return c.askWorker(ctx, name, "terminate")
}

func (c *Client) askWorker(ctx context.Context, name, verb string) (Worker, error) {
	got, _, err := fetch[Worker](ctx, c, call{
		verb: verb + " worker", method: http.MethodPost, path: "admin/workers/" + url.PathEscape(name) + "/" + verb,
		changes: true,
	})
	return got, err
}

package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"
)

// Job returns a job with its attempts, oldest first. It returns ErrNotFound if the job does not exist.
func (c *Client) Job(ctx context.Context, jobID string) (Job, error) {
	k, err := jobCall("job", http.MethodGet, "jobs/", jobID, "")
	if err != nil {
		return Job{}, err
	}
	j, a, err := fetch[Job](ctx, c, k)
	if err == nil && j.JobID == "" {
		return Job{}, fmt.Errorf("job: %w", &Error{Status: a.status, Err: errNoJob})
	}
	j.Payload, j.Result, j.Raw = present(j.Payload), present(j.Result), a.body
	return j, err
}

// Jobs lists jobs, living and ended, the latest first. A submit key sees only its own jobs. cursor is "" at first,
// then the last page's Next.
func (c *Client) Jobs(ctx context.Context, f Filter, cursor string) (Page, error) {
	if !f.From.IsZero() || !f.To.IsZero() {
		return Page{}, fmt.Errorf("jobs: %w: only dead letters can be picked by time", ErrInvalid)
	}
	return c.page(ctx, "jobs", "api/jobs", f, cursor)
}

// AllJobs iterates over all pages of Jobs. An error is the last element.
func (c *Client) AllJobs(ctx context.Context, f Filter) iter.Seq2[Job, error] {
	return pages(func(cursor string) (Page, error) { return c.Jobs(ctx, f, cursor) })
}

func (c *Client) page(ctx context.Context, verb, path string, f Filter, cursor string) (Page, error) {
	q := f.query()
	set(q, "cursor", cursor)
	if f.Limit > 0 {
		q.Set("limit", strconv.Itoa(f.Limit))
	}
	p, _, err := fetch[Page](ctx, c, call{verb: verb, method: http.MethodGet, path: path, query: q})
	return p, err
}

// pages turns a paged list into one sequence.
func pages(page func(cursor string) (Page, error)) iter.Seq2[Job, error] {
	return func(yield func(Job, error) bool) {
		for cursor := ""; ; {
			p, err := page(cursor)
			if err == nil && p.Next == cursor && p.Next != "" {
				err = errors.New("client: the server answers the same cursor again: the list would not end")
			}
			if err != nil {
				yield(Job{}, err)
				return
			}
			for _, j := range p.Items {
				if !yield(j, nil) {
					return
				}
			}
			if cursor = p.Next; cursor == "" {
				return
			}
		}
	}
}

func (f *Filter) query() url.Values {
	q := url.Values{}
	set(q, "status", string(f.Status))
	set(q, "tier", string(f.Tier))
	set(q, "type", f.Type)
	set(q, "queue", f.Queue)
	set(q, "cause", f.Cause)
	set(q, "traceId", f.TraceID)
	set(q, "from", rfc3339(f.From))
	set(q, "to", rfc3339(f.To))
	return q
}

func set(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

func rfc3339(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// jobCall returns a call about one job.
func jobCall(verb, method, before, jobID, behind string) (call, error) {
	if err := checkID(jobID); err != nil {
		return call{}, fmt.Errorf("%s: %w", verb, err)
	}
	return call{verb: verb, method: method, path: before + jobID + behind, about: jobID}, nil
}

// Cancellation is the result of a cancel.
type Cancellation struct {
	JobID  string `json:"jobId"`
	Status Status `json:"status"` // CANCELLED at once, or PROCESSING
	// Requested means that the job was running and its worker has been told: the job will end CANCELLED, never
	// COMPLETED.
	Requested bool `json:"cancelRequested,omitempty"`
}

// Cancel cancels a job. It returns ErrConflict if the job has ended, and ErrNotFound if it does not exist.
func (c *Client) Cancel(ctx context.Context, jobID string) (Cancellation, error) {
	return c.CancelBecause(ctx, jobID, "")
}

// CancelBecause is Cancel with a reason, one line of at most 500 characters, which is stored with the job: see
// Job.Reasons. "" = none.
func (c *Client) CancelBecause(ctx context.Context, jobID, reason string) (Cancellation, error) {
	k, err := jobCall("cancel", http.MethodPost, "api/jobs/", jobID, "/cancel")
	if err != nil {
		return Cancellation{}, err
	}
	k.changes = true
	if k.body, err = because(reason); err != nil {
		return Cancellation{}, fmt.Errorf("cancel: %w", err)
	}
	done, _, err := fetch[Cancellation](ctx, c, k)
	if errors.Is(err, ErrConflict) && errors.Is(err, ErrOutcomeUnknown) {
		// An earlier try may have cancelled the job.
		if p, err := c.Poll(ctx, jobID); err == nil && p.Status == Cancelled {
			return Cancellation{JobID: p.JobID, Status: p.Status}, nil
		}
	}
	return done, err
}

// Requeue requeues a job that FAILED, with the same id and all its retries. Without an error the job will run
// again. It returns ErrConflict if the job has not ended or did not fail.
func (c *Client) Requeue(ctx context.Context, jobID string) error {
	return c.RequeueBecause(ctx, jobID, "")
}

// RequeueBecause is Requeue with a reason, one line of at most 500 characters, which is stored with the job: see
// Job.Reasons. "" = none.
func (c *Client) RequeueBecause(ctx context.Context, jobID, reason string) error {
	k, err := jobCall("requeue", http.MethodPost, "jobs/", jobID, "/retry")
	if err != nil {
		return err
	}
	k.changes, k.key = true, (&Submission{}).key()
	if k.body, err = because(reason); err != nil {
		return fmt.Errorf("requeue: %w", err)
	}
	_, err = c.do(ctx, k)
	return err
}

// Kill makes a dead letter of a job that is SCHEDULED or PENDING: it is FAILED with the cause KILLED, and reason ("" =
// none) is its error. A repeat changes nothing. It returns ErrConflict if the job runs or has ended otherwise. It needs
// an admin's key, as Hasten and Dismiss do.
func (c *Client) Kill(ctx context.Context, jobID, reason string) error {
	return c.operate(ctx, "kill", "admin/jobs/", jobID, "/kill", reason)
}

// Hasten makes a SCHEDULED job PENDING now. A repeat changes nothing. It returns ErrConflict if the job runs or has
// ended.
func (c *Client) Hasten(ctx context.Context, jobID string) error {
	return c.operate(ctx, "hasten", "admin/jobs/", jobID, "/hasten", "")
}

// Dismiss takes a dead letter off the list of dead letters: its job stays FAILED, and can still be requeued. A repeat
// changes nothing. It returns ErrConflict if the job is not FAILED or somebody requeues it.
func (c *Client) Dismiss(ctx context.Context, jobID, reason string) error {
	return c.operate(ctx, "dismiss", "admin/dead/", jobID, "/dismiss", reason)
}

func (c *Client) operate(ctx context.Context, verb, before, jobID, behind, reason string) error {
	k, err := jobCall(verb, http.MethodPost, before, jobID, behind)
	if err != nil {
		return err
	}
	k.changes = true
	if k.body, err = because(reason); err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	_, err = c.do(ctx, k)
	return err
}

// because returns the body of a change with a reason; nil without a reason.
func because(reason string) ([]byte, error) {
	if reason == "" {
		return nil, nil
	}
	return json.Marshal(map[string]string{"reason": reason})
}

// Artifact is the file that a job made. The caller must close it.
type Artifact struct {
	io.ReadCloser
	Name        string // a valid file name without a path
	ContentType string
	Size        int64 // -1 = unknown
}

// Artifact opens the file that a job made. It returns ErrNotFound if there is none. A read returns an error if the
// file breaks off.
func (c *Client) Artifact(ctx context.Context, jobID string) (*Artifact, error) {
	k, err := jobCall("artifact", http.MethodGet, "jobs/", jobID, "/artifact")
	if err != nil {
		return nil, err
	}
	k.stream, k.header = true, http.Header{"Accept": {"*/*"}}
	resp, err := c.open(ctx, k) //nolint:bodyclose // the body is the caller's to close
	if err != nil {
		return nil, err
	}
	a := &Artifact{ReadCloser: resp.Body, ContentType: resp.Header.Get("Content-Type"), Size: resp.ContentLength}
	_, params, err := mime.ParseMediaType(resp.Header.Get("Content-Disposition"))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("artifact: %w", &Error{Status: resp.StatusCode, Err: errNoFile}), a.Close())
	}
	a.Name = fileName(params["filename"], jobID)
	return a, nil
}

// fileName turns a name from the server into a valid file name.
func fileName(name, otherwise string) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || strings.ContainsRune(`:*?"<>|`, r) {
			return '_'
		}
		return r
	}, path.Base(strings.ReplaceAll(strings.ToValidUTF8(name, "_"), `\`, "/")))
	if strings.Trim(name, ". /") == "" {
		return otherwise
	}
	return name
}

// Why explains why a job is waiting.
type Why struct {
	JobID         string         `json:"jobId"`
	Holder        string         `json:"holder,omitempty"` // of a HELD job: the job that has its unique key
	Status        Status         `json:"status"`
	Position      *int64         `json:"position"` // the number of ready jobs ahead of it
	AheadByTier   map[Tier]int64 `json:"aheadByTier"`
	RunningByTier map[Tier]int64 `json:"runningByTier"`
	FreeSlots     int            `json:"freeSlots"`
	Workers       int            `json:"workers"`
	Gate          Gate           `json:"gate"`
	ETASeconds    *int64         `json:"etaSeconds"`
	Line          *LinePlace     `json:"line"` // of a PENDING job in a line
	RunAt         time.Time      `json:"runAt,omitzero"`
	ExpiresAt     time.Time      `json:"expiresAt,omitzero"` // of a job that was never claimed
	Reasons       []string       `json:"reasons"`            // in words, for people
	// WaitsFor is, of a WAITING job, some of the jobs that it waits for.
	WaitsFor []FlowJobInfo `json:"waitsFor,omitempty"`

	Raw json.RawMessage `json:"-"` // the whole answer
}

// Why returns the reasons why a job is still waiting.
func (c *Client) Why(ctx context.Context, jobID string) (Why, error) {
	k, err := jobCall("why", http.MethodGet, "api/jobs/", jobID, "/why")
	if err != nil {
		return Why{}, err
	}
	w, a, err := fetch[Why](ctx, c, k)
	w.Raw = a.body
	return w, err
}

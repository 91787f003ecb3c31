package faktory

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/tierq/tierq/internal/job"
)

// ack serves ACK. Like the server of Faktory it also says +OK to a worker that holds no such job.
func (c *conn) ack(ctx context.Context, text []byte) error {
	var asked map[string]string
	err := json.Unmarshal(text, &asked)
	jid, named := asked["jid"]
	if err != nil || !named {
		return c.fail("invalid ACK " + string(text))
	}
	_, end := c.report(ctx, jid, job.Report{Kind: job.DidSucceed, Result: []byte("null")})
	if end.Err != nil {
		return c.refuse(end.Err)
	}
	return c.ok()
}

// The bounds of what is kept of an error, which are those of the server of Faktory.
const (
	mostErrorType = 100
	mostMessage   = 1000
	mostBacktrace = 50 // lines
)

// failed serves FAIL. A worker whose lease is lost hears +OK: it would repeat its FAIL for minutes.
func (c *conn) failed(ctx context.Context, text []byte) error {
	var f struct {
		Jid       string   `json:"jid"`
		Message   string   `json:"message"`
		Type      string   `json:"errtype"`
		Backtrace []string `json:"backtrace"`
	}
	if json.Unmarshal(text, &f) != nil {
		return c.fail("invalid FAIL " + string(text))
	}
	if f.Jid == "" {
		return c.fail("missing JID")
	}
	known, end := c.report(ctx, f.Jid, job.Report{Kind: job.DidFail, RetryAfter: -1, Error: errorText(
		bounded(f.Type, mostErrorType), bounded(f.Message, mostMessage),
		f.Backtrace[:min(len(f.Backtrace), mostBacktrace)])})
	switch {
	case end.Err != nil:
		return c.refuse(end.Err)
	case !known:
		return c.fail("Job not found " + f.Jid)
	}
	return c.ok()
}

func bounded(text string, most int) string {
	if text = strings.TrimSpace(text); text == "" {
		return "unknown"
	}
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// report ends the attempt that this connection's worker has of a job. known is false if the worker holds no such job.
// A lease that is not held any more ends nothing; it is counted, and no error.
func (c *conn) report(ctx context.Context, jid string, r job.Report) (known bool, end job.WorkerEnd) {
	s, w := c.server, c.worker
	tried := map[string]bool{}
	for _, read := range []bool{false, true} {
		if read { // another process may have given the worker this job, or the job's latest attempt
			s.drops.wait(ctx) // what ended here is in the book no more
			if err := s.readBook(ctx, w); err != nil {
				return known, job.WorkerEnd{Err: err}
			}
		}
		for _, h := range w.lookup(jid) {
			if tried[h.Field] {
				continue
			}
			known, tried[h.Field] = true, true
			end = s.Leases.End(ctx, w.key, []job.WorkerReport{{Sealed: h.Sealed, Report: r}})[0]
			lost := errors.Is(end.Err, job.ErrLeaseLost) || errors.Is(end.Err, job.ErrBadLease)
			if end.Err != nil && !lost {
				return known, end
			}
			w.drop(h.Field)
			s.drops.add(job.HeldRef{Key: w.key, Worker: w.book(), Field: h.Field})
			if !lost {
				s.counted(&end, r.Kind == job.DidFail)
				s.dropEarlier(w, jid, h.Field)
				return known, end
			}
		}
	}
	if known {
		s.lost.Add(1)
		s.Log.Debug("a Faktory worker reported a job that is not its own any more", "jid", clipped(jid), "worker", w.name)
	}
	return known, job.WorkerEnd{}
}

// dropEarlier forgets the earlier attempts of a job whose latest attempt has ended.
func (s *Server) dropEarlier(w *worker, jid, field string) {
	id, _, _ := strings.Cut(field, ":")
	for _, h := range w.lookup(jid) {
		if strings.HasPrefix(h.Field, id+":") {
			w.drop(h.Field)
			s.drops.add(job.HeldRef{Key: w.key, Worker: w.book(), Field: h.Field})
		}
	}
}

// counted adds the end of an attempt to the totals, and notes a dead letter that SQL may not have yet.
func (s *Server) counted(end *job.WorkerEnd, failed bool) {
	s.drops.count(failed)
	if end.How == job.EndFailed {
		s.dead.expect(end.ID)
		s.group.Go(func() { s.dismissEphemeral(end.ID) })
	}
}

package client

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/job"
)

// answer is the answer to a request. Its status is 0 if no complete answer came.
type answer struct {
	status int
	sent   bool // a server may have seen the request
	tag    string
	body   reply
	text   []byte // the whole body
}

// reply has the fields of all bodies that the load reads.
type reply struct {
	Data      json.RawMessage `json:"apiResponseData"`
	JobID     job.ID          `json:"jobId"`
	ErrorCode string          `json:"errorCode"`
}

// call sends one request with a key ("" = none) and reads the whole answer. An answer that breaks off counts as
// none.
func (l *Load) call(ctx context.Context, method, url, key string, body []byte, header map[string]string) (a answer) {
	var reached atomic.Bool
	ctx = httptrace.WithClientTrace(ctx,
		&httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { reached.Store(true) }})
	defer func() { a.sent = reached.Load() }()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return a
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := l.http.Do(req)
	if err != nil {
		return a
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusNoContent && json.Unmarshal(text, &a.body) != nil {
		return a
	}
	a.status, a.tag, a.text = resp.StatusCode, resp.Header.Get("ETag"), text
	if key != "" && (a.status == http.StatusUnauthorized || a.status == http.StatusForbidden) {
		l.shut()
	}
	return a
}

// fate returns what a client may conclude from the answer. Fail: no server was reached, or tierq refused. A 503 is
// a refusal only if it has one of tierq's error codes. All other answers that are not 2xx leave the outcome
// unknown.
func (a *answer) fate() check.Fate {
	switch {
	case a.status >= 200 && a.status < 300:
		return check.OK
	case a.status == 0 && !a.sent:
		return check.Fail
	case a.status >= 400 && a.status < 500:
		return check.Fail
	case a.status == http.StatusServiceUnavailable && a.body.ErrorCode != "":
		return check.Fail
	}
	return check.Unknown
}

// do sends the request of some ops. It writes them to the history's file before that, and sets what was answered.
func (l *Load) do(ctx context.Context, method, url, key string, body []byte, header map[string]string,
	ops ...*check.Op) answer {
	for _, op := range ops {
		op.Sent, op.Answered, op.Fate, op.Status, op.Code = time.Now(), time.Time{}, check.Unknown, 0, ""
		l.asked(op)
	}
	a := l.call(ctx, method, url, key, body, header)
	for _, op := range ops {
		op.Answered, op.Fate, op.Status, op.Code = time.Now(), a.fate(), a.status, a.body.ErrorCode
	}
	return a
}

// submit sends one job by itself. If the answer has an id, it is stored in the wish.
func (l *Load) submit(ctx context.Context, base string, w *wish) {
	header := map[string]string{"X-Trace-Id": w.op.Trace}
	if w.op.Once != "" {
		header["Idempotency-Key"] = w.op.Once
	}
	w.op.Server = base
	text, _ := json.Marshal(w.body)
	a := l.do(ctx, http.MethodPost, base+"/"+strings.ToLower(string(w.op.Tier))+"/submit", l.key(w.key), text, header,
		&w.op)
	var data struct {
		JobID        job.ID `json:"jobId"`
		Deduplicated bool   `json:"deduplicated"`
	}
	_ = json.Unmarshal(a.body.Data, &data) // a refusal has no data
	w.op.Unique.StandIn = data.Deduplicated
	if id := max(data.JobID, a.body.JobID); id != "" { // an answer of OUTCOME_UNKNOWN has its id in the body itself
		w.op.ID = id
	}
	l.wrote(&w.op)
}

// batch sends several jobs of one tier in one request. An entry whose outcome is unknown is sent again by itself,
// if it has an Idempotency-Key.
func (l *Load) batch(ctx context.Context, base string, wishes []wish, dice *rand.Rand) {
	trace := "batch-" + wishes[0].op.Key
	ops, bodies := make([]*check.Op, len(wishes)), make([]body, len(wishes))
	for i := range wishes {
		ops[i], bodies[i] = &wishes[i].op, wishes[i].body
		ops[i].Trace, ops[i].Server, bodies[i].Once = trace, base, ops[i].Once
	}
	text, _ := json.Marshal(bodies)
	tier := strings.ToLower(string(ops[0].Tier))
	a := l.do(ctx, http.MethodPost, base+"/"+tier+"/submit/batch", l.key(wishes[0].key), text,
		map[string]string{"X-Trace-Id": trace}, ops...)
	var entries []reply
	_ = json.Unmarshal(a.body.Data, &entries)
	for i, op := range ops {
		if op.Fate == check.OK && len(entries) == len(ops) {
			op.ID, op.Code = entries[i].JobID, entries[i].ErrorCode
			switch {
			case op.Code == "OUTCOME_UNKNOWN":
				op.Fate = check.Unknown
			case op.Code != "":
				op.Fate = check.Fail
			}
		} else if op.Fate == check.OK {
			op.Fate = check.Unknown // the answer cannot be read
		}
		l.wrote(op)
		if op.Trace = op.Key; op.Once != "" && op.Fate == check.Unknown {
			l.single(ctx, &wishes[i], dice)
		}
	}
}

// change sends a cancel or a requeue.
func (l *Load) change(ctx context.Context, base, method, path, key string, op *check.Op) {
	var header map[string]string
	if op.Once != "" {
		header = map[string]string{"Idempotency-Key": op.Once}
	}
	op.Server = base
	l.do(ctx, method, base+path, key, nil, header, op)
	l.wrote(op)
}

// poll polls a job once and records the answer. The generation is the last part of the ETag.
func (l *Load) poll(ctx context.Context, by string, id job.ID, dice *rand.Rand) check.Poll {
	p := check.Poll{By: by, ID: id, Sent: time.Now()}
	a := l.call(ctx, http.MethodGet, l.base(dice)+"/result/poll?jobId="+string(id), l.key(l.known.key(id)), nil, nil)
	p.At, p.HTTP = time.Now(), a.status
	if p.HTTP == http.StatusOK {
		var data struct {
			Status job.Status      `json:"currentJobStatus"`
			Result json.RawMessage `json:"result"`
		}
		_ = json.Unmarshal(a.body.Data, &data) // call has decoded the whole body before
		parts := strings.Split(strings.TrimSuffix(a.tag, `"`), "-")
		if p.Status = data.Status; p.Status == job.Completed {
			p.ResultSum = resultSum(data.Result)
		}
		p.Generation, _ = strconv.Atoi(parts[len(parts)-1])
	}
	if p.HTTP != 0 {
		l.saw(p)
	}
	return p
}

// resultSum returns the hash of the result of a completed job without its white space. A job that a Faktory worker
// completed has no result: that counts as null.
func resultSum(result []byte) string {
	if len(result) == 0 {
		result = []byte("null")
	}
	var compact bytes.Buffer
	if json.Compact(&compact, result) != nil {
		return Sum(result)
	}
	return Sum(compact.Bytes())
}

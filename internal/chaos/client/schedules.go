package client

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/job"
)

// scheduleKinds are the schedules of a load. Each has an operator of its own, who stores, changes, pauses, resumes,
// runs and deletes it, with one request at a time.
var scheduleKinds = []struct {
	every   time.Duration
	overlap job.Overlap
	catchUp job.CatchUp
}{
	{time.Second, job.OverlapAllow, job.CatchUpLast}, {time.Second, job.OverlapSkip, job.CatchUpNone},
	{2 * time.Second, job.OverlapOne, job.CatchUpAll}, {time.Second, job.OverlapReplace, job.CatchUpAll},
}

// operator changes one schedule.
type operator struct {
	*Load
	kind    int
	name    string
	dice    *rand.Rand
	wish    check.ScheduleWish // of the last put
	body    []byte             // its body
	tag     string             // the ETag of the last answer
	there   bool               // as far as the operator knows
	paused  bool
	numbers int
	final   bool // the load ends the schedule
}

// Operate runs the operators of the schedules, and reads the rows of the occurrences, until ctx ends. Without a
// key for the schedules it does nothing.
func (l *Load) Operate(ctx context.Context) {
	if l.Schedules.Key.Text == "" {
		return
	}
	var group sync.WaitGroup
	for n := range scheduleKinds {
		o := &operator{Load: l, kind: n, name: fmt.Sprintf("%s-%d", scheduleKinds[n].overlap, n), dice: l.dice(7000 + n)}
		l.operators = append(l.operators, o)
		group.Go(func() {
			for wait(ctx, time.Duration(300+o.dice.IntN(2500))*time.Millisecond) {
				o.act(context.WithoutCancel(ctx))
			}
		})
	}
	for wait(ctx, 2*time.Second) {
		l.readOccurrences(ctx)
	}
	group.Wait()
}

// act makes one change.
func (o *operator) act(ctx context.Context) {
	draw := o.dice.IntN(12)
	switch {
	case !o.there:
		o.put(ctx, true, map[string]string{"If-None-Match": "*"})
	case o.paused && draw < 8:
		o.change(ctx, "resume", http.MethodPost, "/resume", nil, nil)
	case draw < 2: // another payload
		o.put(ctx, false, nil)
	case draw < 4: // other times too
		o.put(ctx, true, map[string]string{"If-Match": o.tag})
	case draw < 5:
		o.put(ctx, true, map[string]string{"If-Match": `"999999"`}) // it is refused
	case draw < 7:
		o.change(ctx, "pause", http.MethodPost, "/pause", []byte(`{"reason":"chaos"}`), nil)
	case draw < 8:
		o.change(ctx, "delete", http.MethodDelete, "", nil, map[string]string{"If-Match": o.tag})
	default:
		o.run(ctx)
	}
}

// put stores the schedule with another payload, and with other times if times says so.
func (o *operator) put(ctx context.Context, times bool, header map[string]string) {
	kind := scheduleKinds[o.kind]
	o.numbers++
	if times || o.wish.Every == 0 {
		o.wish.Every, o.wish.Start = kind.every, time.Time{}
		if o.dice.IntN(3) == 0 {
			o.wish.Every = time.Duration(1+o.dice.IntN(3)) * time.Second
		}
		if o.dice.IntN(2) == 0 {
			o.wish.Start = time.Now().UTC().Add(time.Duration(o.dice.IntN(3000)-1500) * time.Millisecond).
				Truncate(time.Millisecond)
		}
	}
	p := Payload{Key: fmt.Sprintf("%d-%s-%d", o.Seed, o.name, o.numbers), File: o.Runs,
		SleepMs: o.dice.IntN(int(o.MaxSleep.Milliseconds()) + 1)}
	if o.dice.IntN(3) == 0 { // longer than it takes until the next occurrence
		p.SleepMs = 800 + o.dice.IntN(500)
	}
	if o.dice.IntN(6) == 0 {
		p.Fail = 1
	}
	payload, _ := json.Marshal(p) // texts and numbers only: it cannot fail
	o.wish.Name, o.wish.Key, o.wish.Sum, o.wish.Fails, o.wish.Overlap = o.name, p.Key, Sum(payload), p.Fail, kind.overlap
	o.wish.Tier = o.tier(o.dice)
	body := map[string]any{"everySeconds": int(o.wish.Every.Seconds()), "overlap": kind.overlap, "catchUp": kind.catchUp,
		"job": map[string]any{"tier": o.wish.Tier, "type": check.Type, "payload": json.RawMessage(payload)}}
	if !o.wish.Start.IsZero() {
		body["start"] = o.wish.Start.Format(time.RFC3339Nano)
	}
	o.body, _ = json.Marshal(body)
	o.wished(o.wish)
	o.change(ctx, "put", http.MethodPut, "", o.body, header)
}

// change sends a change up to ten times until a definite answer comes, and records each request. What it asks for is
// the same each time, but after a lost answer only a deletion has its precondition.
func (o *operator) change(ctx context.Context, verb, method, path string, body []byte, header map[string]string) (
	made bool) {
	lost := false // an answer
	for range 10 {
		c := check.ScheduleChange{Name: o.name, Verb: verb, Server: o.base(o.dice), Sent: time.Now(), Final: o.final}
		switch verb {
		case "put":
			c.Asked = o.wish.Key
		case "delete":
			c.Read = o.readOccurrences(ctx)
			c.Sent = time.Now()
		}
		asked := version(header["If-Match"])
		a := o.call(ctx, method, c.Server+"/admin/schedules/"+o.name+path, o.Schedules.Key.Text, body, header)
		c.Answered, c.Fate, c.Status = time.Now(), a.fate(), a.status
		var now struct {
			Job    struct{ Payload Payload }
			Paused *struct{}
		}
		switch {
		case a.status == http.StatusNoContent, a.status == http.StatusNotFound && lost && verb == "delete":
			c.Fate, c.Version, o.there, o.paused = check.OK, asked, false, false
		case a.status == http.StatusNotFound:
			c.Fate, o.there, o.paused = check.OK, false, false
		case c.Fate == check.OK:
			_ = json.Unmarshal(a.text, &now) // call has decoded the whole body before
			c.Now, c.Paused = now.Job.Payload.Key, now.Paused != nil
			o.there, o.paused, o.tag, c.Version = true, c.Paused, a.tag, version(a.tag)
		}
		o.changed(c)
		refused := a.status >= 400 && a.status < 500 && c.Fate == check.Fail
		if c.Fate == check.OK || refused || !wait(ctx, time.Duration(50+o.dice.IntN(500))*time.Millisecond) {
			return c.Fate == check.OK
		}
		if lost = lost || c.Fate == check.Unknown; lost && verb != "delete" {
			header = nil
		}
	}
	return false
}

// version returns the version in an ETag; 0 = it has none.
func version(tag string) int {
	n, _ := strconv.Atoi(strings.Trim(tag, `"`))
	return n
}

// run asks for a job now, under an Idempotency-Key and up to four times until an answer comes; some requests are sent
// again after an answer.
func (o *operator) run(ctx context.Context) {
	o.numbers++
	op := check.Op{
		Kind: "submit", Key: fmt.Sprintf("%d-%s-run-%d", o.Seed, o.name, o.numbers), Type: check.Type, Tier: o.wish.Tier,
		Schedule: o.name,
	}
	op.Trace, op.Once = op.Key, op.Key
	o.askedFor(op.Key, check.Asked{Owner: o.Schedules.Key.ID})
	again := o.dice.IntN(3) == 0
	for range 4 {
		op.Server = o.base(o.dice)
		a := o.do(ctx, http.MethodPost, op.Server+"/admin/schedules/"+o.name+"/run", o.Schedules.Key.Text, nil,
			map[string]string{"Idempotency-Key": op.Once}, &op)
		if a.body.JobID != "" && op.Fate != check.Fail {
			op.ID = a.body.JobID
		}
		o.wrote(&op)
		if op.Fate != check.Unknown && !again || !wait(ctx, time.Duration(o.dice.IntN(500))*time.Millisecond) {
			return
		}
		again = again && op.Fate == check.Unknown
	}
}

// EndSchedules waits for up to within until every schedule that fires has decided its occurrences until a few seconds
// ago, and then pauses all, so that the servers come to rest. An error says that a schedule could not be paused.
func (l *Load) EndSchedules(ctx context.Context, within time.Duration) error {
	if len(l.operators) == 0 {
		return nil
	}
	for end := time.Now().Add(within); time.Now().Before(end) && l.behind(ctx) && wait(ctx, 500*time.Millisecond); {
	}
	for _, o := range l.operators {
		o.final = true
		ended := false
		for end := time.Now().Add(within); !ended && time.Now().Before(end); {
			ended = o.change(ctx, "pause", http.MethodPost, "/pause", []byte(`{"reason":"the end"}`), nil)
		}
		if !ended {
			return fmt.Errorf("the schedule %s could not be paused at the end", o.name)
		}
	}
	for end := time.Now().Add(within); l.readOccurrences(ctx).Before(end.Add(-within)); {
		if time.Now().After(end) || !wait(ctx, 500*time.Millisecond) {
			return fmt.Errorf("the runs of the schedules could not be read at the end")
		}
	}
	return nil
}

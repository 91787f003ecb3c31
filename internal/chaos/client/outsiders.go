package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/job"
)

// outsider is a worker of another program. It claims jobs of the queue check.Queue over HTTP and reports their ends.
// Each of its calls goes to a random server, as behind a balancer. A repeat of a call goes to a random server again.
type outsider struct {
	*Load
	name string
	key  int // the index of its API key
	dice *rand.Rand
	busy atomic.Int64 // the jobs that it has
}

// These are the habits of an outsider. A share counts claims or jobs, from 0 to 1. Those marked with a star end when
// a fifth of the submits is left, so that the system comes to rest.
const (
	mostJobs  = 8
	leaseFor  = 5 * time.Second // the shortest lease that a claim may ask for
	vanishes  = 0.08            // * of the claims with jobs: it dies soon after, and says nothing
	hangsUp   = 0.15            // * of the claims and reports: it does not wait for the first answer
	asksAgain = 0.2             // * of the claims: it drops the first answer, and repeats the claim
	silent    = 0.08            // * of the jobs: it says nothing for longer than the lease
	beats     = 0.15            // of the jobs: it works for longer, and sends heartbeats
	fails     = 0.04            // * of the jobs
	releases  = 0.08            // * of the jobs
	twice     = 0.15            // of the reports: it reports again after the answer, in one of three cases something else
	others    = 0.03            // of the reports: another worker reports the end first, with another key
)

// Outside counts what the outsiders did.
type Outside struct{ Jobs, Lost, Dropped, Silent, Vanished, Twice, Released atomic.Int64 }

// Work runs the outsiders and the Faktory workers until ctx ends. A worker that vanishes is followed by another one.
func (l *Load) Work(ctx context.Context) {
	var all sync.WaitGroup
	for n := range l.Outsiders {
		all.Go(func() {
			dice := l.dice(4000 + n)
			for life := 1; ctx.Err() == nil; life++ {
				o := &outsider{Load: l, name: fmt.Sprintf("w%dx%d", n, life), dice: dice}
				if len(l.WorkerKeys) > 0 {
					o.key = n % len(l.WorkerKeys)
				}
				o.live(ctx)
				wait(ctx, time.Duration(dice.IntN(500))*time.Millisecond)
			}
		})
	}
	for n := range l.Faktory.Workers {
		all.Go(func() { l.workFaktory(ctx, n, &all) })
	}
	all.Wait()
	l.http.CloseIdleConnections()
}

// live claims and works until the outsider dies or ctx ends.
func (o *outsider) live(ctx context.Context) {
	ctx, die := context.WithCancel(ctx)
	var hands sync.WaitGroup
	defer hands.Wait()
	defer die()
	for claims := 1; ctx.Err() == nil; claims++ {
		free := mostJobs - int(o.busy.Load())
		if free <= 0 {
			wait(ctx, 20*time.Millisecond)
			continue
		}
		tasks := o.claim(ctx, fmt.Sprint("c", claims), 1+o.dice.IntN(min(free, 4)))
		for i := range tasks {
			dice := rand.New(rand.NewPCG(o.dice.Uint64(), o.dice.Uint64()))
			o.busy.Add(1)
			hands.Go(func() {
				defer o.busy.Add(-1)
				o.work(ctx, &tasks[i], dice)
			})
		}
		if len(tasks) > 0 && o.sometimes(o.dice, vanishes) {
			wait(ctx, time.Duration(o.dice.IntN(300))*time.Millisecond)
			o.Outside.Vanished.Add(1)
			return
		}
		wait(ctx, time.Duration(5+o.dice.IntN(40))*time.Millisecond)
	}
}

// sometimes says yes to a share of the calls, until a fifth of the submits is left.
func (l *Load) sometimes(dice *rand.Rand, share float64) bool {
	return dice.Float64() < share && 5*l.left.Load() > int64(l.Jobs)
}

// task is a job that an outsider claimed.
type task struct {
	JobID               job.ID
	Payload             json.RawMessage
	Attempt, Generation int
	Lease               string
	LeaseForMs          int64

	Jid   string `json:"-"` // of a Faktory worker's job: what that worker calls it
	ended bool   // of a Faktory worker's job: the end is in the history
	verb  string // of a Faktory worker's job: what it reports

	claimed time.Time // when the claim was sent that brought it
	lease   int       // the number of its lease in the history
	run     int       // the index of its run in the history
}

// claim sends a claim up to five times, always with the same id, until an answer comes.
func (o *outsider) claim(ctx context.Context, id string, most int) []task {
	seconds := o.dice.IntN(2)
	for try := range 5 {
		body, _ := json.Marshal(map[string]any{
			"worker": o.name, "claimId": id, "repeat": try, "queues": []string{check.Queue}, "max": most, "wait": seconds,
			"leaseSeconds": int(leaseFor.Seconds()),
		})
		sent := time.Now()
		a := o.send(ctx, o.base(o.dice), "claim", o.key, body, try == 0, o.dice)
		var answer struct{ Jobs []task }
		switch {
		case a.status != http.StatusOK || json.Unmarshal(a.text, &answer) != nil:
			if ctx.Err() == nil {
				o.Outside.Lost.Add(1)
			}
		case try == 0 && len(answer.Jobs) > 0 && o.sometimes(o.dice, asksAgain):
			o.Outside.Dropped.Add(1)
		default:
			for i := range answer.Jobs {
				answer.Jobs[i].claimed = sent
			}
			return answer.Jobs
		}
		if !wait(ctx, time.Duration(10+o.dice.IntN(300))*time.Millisecond) {
			break
		}
	}
	return nil
}

// send sends one call. Of the first calls some hang up within 40 ms.
func (o *outsider) send(ctx context.Context, base, verb string, key int, body []byte, first bool,
	dice *rand.Rand) answer {
	if first && o.sometimes(dice, hangsUp) {
		hurried, cancel := context.WithTimeout(ctx, time.Duration(1+dice.IntN(40))*time.Millisecond)
		defer cancel()
		ctx = hurried
	}
	text := ""
	if len(o.WorkerKeys) > 0 {
		text = o.WorkerKeys[key].Text
	}
	return o.call(ctx, http.MethodPost, base+"/api/worker/"+verb, text, body, nil)
}

// work does with a job what its worker may do: it works, with or without heartbeats, or is silent for too long. Then it
// reports the end.
func (o *outsider) work(ctx context.Context, t *task, dice *rand.Rand) {
	p := readPayload(t.Payload)
	// The answer to a claim spells some characters of a payload without the escapes that the submit has.
	var spelled bytes.Buffer
	json.HTMLEscape(&spelled, t.Payload)
	sum := Sum(spelled.Bytes())
	o.Outside.Jobs.Add(1)
	o.begin(t, &check.Run{
		ID: t.JobID, Key: p.Key, Generation: t.Generation, Attempt: t.Attempt, Worker: o.name, Sum: sum,
		Began: time.Now(), Held: t.claimed.Add(time.Duration(t.LeaseForMs) * time.Millisecond),
	})
	switch {
	case o.sometimes(dice, silent):
		o.Outside.Silent.Add(1)
		if !wait(ctx, leaseFor+time.Duration(dice.IntN(6000))*time.Millisecond) {
			return
		}
		// A worker that hears LOST has to stop. Some report all the same.
		if dice.IntN(2) == 0 && o.beat(ctx, t, dice) == job.Lost && dice.IntN(2) == 0 {
			o.end(t, "")
			return
		}
	case dice.Float64() < beats:
		for range 1 + dice.IntN(3) {
			if !wait(ctx, time.Duration(300+dice.IntN(700))*time.Millisecond) {
				return
			}
			if o.beat(ctx, t, dice) == job.Lost {
				o.end(t, "")
				return
			}
		}
	default:
		if !wait(ctx, time.Duration(p.SleepMs)*time.Millisecond) {
			return
		}
	}
	o.report(ctx, t, &p, dice)
}

// report ends an attempt: it sends the end until an answer comes, and sometimes once more after that.
func (o *outsider) report(ctx context.Context, t *task, p *Payload, dice *rand.Rand) {
	result, _ := json.Marshal(map[string]any{"by": o.name, "attempt": t.Attempt, "lease": t.lease, "key": p.Key})
	verb, sum := "complete", ""
	switch {
	case t.Attempt <= p.Fail, o.sometimes(dice, fails):
		verb = "fail"
	case o.sometimes(dice, releases):
		verb = "release"
		o.Outside.Released.Add(1)
	default:
		sum = resultSum(result)
	}
	o.end(t, sum)
	if len(o.WorkerKeys) > 1 && dice.Float64() < others {
		o.tell(ctx, t, verb, result, (o.key+1)%len(o.WorkerKeys), false, dice)
	}
	for first := true; ctx.Err() == nil; first = false {
		if status := o.tell(ctx, t, verb, result, o.key, first, dice); status >= 200 && status < 500 && status != 429 {
			break
		}
		wait(ctx, time.Duration(50+dice.IntN(400))*time.Millisecond)
	}
	if dice.Float64() < twice {
		o.Outside.Twice.Add(1)
		if dice.IntN(3) == 0 {
			verb = []string{"complete", "fail", "release"}[dice.IntN(3)]
		}
		wait(ctx, time.Duration(dice.IntN(300))*time.Millisecond)
		o.tell(ctx, t, verb, result, o.key, false, dice)
	}
}

// tell sends an end once and records the call. It returns the status of the answer; 0 = there was none.
func (o *outsider) tell(ctx context.Context, t *task, verb string, result []byte, key int, first bool,
	dice *rand.Rand) int {
	body := map[string]any{"lease": t.Lease}
	c := check.WorkerCall{Verb: verb, Stranger: key != o.key, Sent: time.Now()}
	switch verb {
	case "complete":
		body["result"], c.Result = json.RawMessage(result), resultSum(result)
	case "fail":
		body["error"], body["retryAfterSeconds"] = map[string]any{"message": "it was to fail"}, dice.IntN(2)
	}
	text, _ := json.Marshal(body)
	a := o.send(ctx, o.base(dice), verb, key, text, first, dice)
	var answer struct{ Outcome string }
	_ = json.Unmarshal(a.text, &answer) // a refusal has no outcome
	c.HTTP, c.Word = a.status, answer.Outcome+a.body.ErrorCode
	o.told(t, &c)
	return a.status
}

// beat sends a heartbeat up to three times until an answer comes, and returns the word of the answer; "" = no answer.
func (o *outsider) beat(ctx context.Context, t *task, dice *rand.Rand) job.Word {
	body, _ := json.Marshal(map[string]any{"worker": o.name, "leases": []any{map[string]any{"lease": t.Lease}}})
	for range 3 {
		c := check.WorkerCall{Verb: "heartbeat", Sent: time.Now()}
		a := o.send(ctx, o.base(dice), "heartbeat", o.key, body, false, dice)
		var answer struct {
			Leases []struct {
				Word       job.Word
				LeaseForMs int64
			}
		}
		c.HTTP, c.Word = a.status, a.body.ErrorCode
		if json.Unmarshal(a.text, &answer) == nil && len(answer.Leases) == 1 {
			c.Word = string(answer.Leases[0].Word)
			if c.Word != string(job.Lost) {
				c.For = time.Duration(answer.Leases[0].LeaseForMs) * time.Millisecond
			}
		}
		o.told(t, &c)
		if a.status == http.StatusOK || !wait(ctx, time.Duration(dice.IntN(200))*time.Millisecond) {
			return job.Word(c.Word)
		}
	}
	return ""
}

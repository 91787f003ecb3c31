package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/lua"
)

// result is what a SIMULATION of one step answers.
const result = `{"stepsRun":1,"elapsedMs":0,"computed":null}`

// scripts are the four that a job's life without trouble needs, as shipped or derived from what is shipped.
type scripts struct {
	prelude, submit, claim, complete, acknowledge string

	owner string // of the jobs; "-" = they have none
	keys  int    // of the jobs' lines, in turn; 0 = they have none
}

func shipped() scripts {
	return scripts{
		lua.Prelude, lua.Own("submit"), lua.Source("claim"), lua.Source("complete"), lua.Source("acknowledge"),
		"-", 0,
	}
}

// life is what many jobs cost from submit to acknowledge, one connection, batches of 100.
type life struct {
	cpu, script   time.Duration
	verbs         [4]time.Duration // cpu of submit, claim, complete, acknowledge
	queued, ended float64          // bytes per job
	aof           float64          // bytes per job, of the whole life
}

var verbs = [4]string{"submit", "claim", "complete", "acknowledge"}

// command is a script with the keys that its header names.
type command struct {
	*redis.Script
	keys []string
}

func (s scripts) prepare(verb, source string) command {
	c := command{Script: redis.NewScript(s.prelude + source)}
	header, _ := lua.ReadHeader(verb, lua.Source(verb)) // a test of lua holds the scripts to their headers
	for _, name := range header.Keys {
		switch name {
		case "claims", "events": // the caller's own, which the queue keeps to itself
			c.keys = append(c.keys, strings.TrimSuffix(queue.Key(0, "outbox"), "outbox")+name+":bench")
		default:
			c.keys = append(c.keys, queue.Key(0, name))
		}
	}
	return c
}

// live brings n jobs through their whole life on an empty Redis, verb by verb, and checks every word.
func (l *lab) live(ctx context.Context, s scripts, n int) (life, error) {
	var out life
	if err := l.empty(ctx); err != nil {
		return out, err
	}
	var cs [4]command
	for i, source := range []string{s.submit, s.claim, s.complete, s.acknowledge} {
		cs[i] = s.prepare(verbs[i], source)
	}
	for _, c := range cs {
		if err := c.Load(ctx, l.client).Err(); err != nil {
			return out, fmt.Errorf("load script: %w", err)
		}
	}
	calls := make([][]any, 0, n/job.MaxBatch+1)
	class := fmt.Sprintf("PAID main 5 %s 0 1 %d 0 - -", s.owner, capacity)
	keyed := func(i int) string {
		if s.keys == 0 {
			return class
		}
		return fmt.Sprintf("%s line=k%d", class, i%s.keys)
	}
	for left := n; left > 0; left -= job.MaxBatch {
		shares := strings.ReplaceAll("PUBLIC n n n n n UNPAID n n n n n PAID n n n n n ", "n", strconv.Itoa(capacity))
		args := []any{10000000000000, "9007199254740991", 60000, shares}
		for i := range min(left, job.MaxBatch) {
			args = append(args, string(newID()), keyed(n-left+i), "SIMULATION "+traceID, nothing, "")
		}
		calls = append(calls, args)
	}
	var at [5]reading
	var err error
	if at[0], err = l.read(ctx); err != nil {
		return out, err
	}
	for i, verb := range verbs {
		if calls, err = l.all(ctx, verb, cs[i], calls, n); err != nil {
			return out, fmt.Errorf("%s: %w", verb, err)
		}
		if at[i+1], err = l.read(ctx); err != nil {
			return out, err
		}
		out.verbs[i] = at[i+1].cpu - at[i].cpu
	}
	out.cpu, out.script = at[4].cpu-at[0].cpu, at[4].script-at[0].script
	out.queued, out.ended = (at[1].memory-at[0].memory)/float64(n), (at[4].memory-at[0].memory)/float64(n)
	out.aof = (at[4].aof - at[0].aof) / float64(n)
	return out, nil
}

const nonce = "bench-4711-deadbeef"

// all makes the calls of one verb and returns the arguments of the next verb's.
func (l *lab) all(ctx context.Context, verb string, c command, calls [][]any, n int) ([][]any, error) {
	next := make([][]any, 0, len(calls))
	done := 0
	for i, args := range calls {
		reply, err := c.Run(ctx, l.client, c.keys, args...).Slice()
		if err != nil {
			return nil, err
		}
		var then []any
		switch verb {
		case "submit":
			then = []any{
				nonce, i + 1, job.MaxBatch, "+inf", job.MaxBatchBytes, "main", 10000000000000, "-inf", "-", 0,
				"oldest", "", "-", "*", 15000, 50000,
			}
		case "claim":
			then = []any{10000}
			for _, id := range reply[3].([]any) { // next, leases, which, ids, records, checkpoints
				then = append(then, id, "1", fmt.Sprintf("%s:%d", nonce, i+1), result)
				done++
			}
			reply = nil
		case "complete":
			then = []any{(24 * time.Hour).Milliseconds()}
			for a := args[1:]; len(a) > 0; a = a[4:] {
				then = append(then, a[0], fmt.Sprintf("1 %s COMPLETED true false", a[1]))
			}
		}
		for _, word := range reply {
			if word, _ := word.(string); word != "OK" && !strings.HasPrefix(word, "OK ") {
				return nil, fmt.Errorf("answered %s", word)
			}
			done++
		}
		next = append(next, then)
	}
	if done != n {
		return nil, fmt.Errorf("%d of %d jobs", done, n)
	}
	return next, nil
}

type reading struct {
	cpu, script time.Duration
	memory, aof float64
}

func (l *lab) read(ctx context.Context) (r reading, err error) {
	if r.cpu, err = l.redisCPU(ctx); err != nil {
		return r, err
	}
	if _, r.script, err = l.scriptStats(ctx); err != nil {
		return r, err
	}
	if r.memory, err = l.info(ctx, "memory", "used_memory"); err != nil {
		return r, err
	}
	r.aof, err = l.info(ctx, "persistence", "aof_current_size")
	return r, err
}

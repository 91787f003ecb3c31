package client

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/job"
)

// flowNames are the jobs of a flow and what each waits for: two after the first, and the last after both.
var flowNames = []struct {
	name  string
	after []string
}{{"first", nil}, {"left", []string{"first"}}, {"right", []string{"first"}}, {"last", []string{"left", "right"}}}

// flowKey is the API key that flows are submitted with. Its quota is never reached: the releases of a flow are not
// refused for one.
const flowKey = 1

type flowBody struct {
	body
	Tier      job.Tier `json:"tier"`
	After     []string `json:"after"`
	OnFailure string   `json:"onFailure"`
}

// flow submits a flow, under an Idempotency-Key and up to ten times until an answer comes. However a job of it ends,
// the jobs behind it run. It says whether the flow was refused.
func (l *Load) flow(ctx context.Context, tier job.Tier, dice *rand.Rand) (refused bool) {
	key := min(flowKey, max(len(l.Keys)-1, 0))
	wishes, ops, jobs := make([]wish, len(flowNames)), make([]*check.Op, len(flowNames)), map[string]flowBody{}
	keys := map[string]string{}
	for i, of := range flowNames {
		w := l.wish(tier, key, dice)
		w.op.Delay, w.op.Once, w.op.Line = 0, "", ""
		w.body.Delay, w.body.Line = 0, ""
		w.op.Flow = fmt.Sprintf("%d-flow-%s", l.Seed, w.op.Key)
		if i > 0 {
			w.op.Flow = wishes[0].op.Flow
		}
		for _, after := range of.after {
			w.op.After = append(w.op.After, keys[after])
		}
		w.op.Trace = w.op.Flow
		wishes[i], ops[i], keys[of.name] = w, &wishes[i].op, w.op.Key
		jobs[of.name] = flowBody{body: w.body, Tier: tier, After: of.after, OnFailure: "run"}
	}
	text, _ := json.Marshal(map[string]any{"name": wishes[0].op.Flow, "jobs": jobs}) // texts and numbers only
	header := map[string]string{"X-Trace-Id": wishes[0].op.Flow, "Idempotency-Key": wishes[0].op.Flow}
	var made struct{ Jobs map[string]job.ID }
	for range 10 {
		base := l.base(dice)
		for i := range wishes {
			wishes[i].op.Server = base
		}
		a := l.do(ctx, http.MethodPost, base+"/api/flows", l.key(key), text, header, ops...)
		if a.fate() == check.OK {
			_ = json.Unmarshal(a.text, &made) // call has decoded the whole body before
		}
		for i, of := range flowNames {
			wishes[i].op.ID = made.Jobs[of.name]
			l.wrote(&wishes[i].op)
		}
		if a.fate() != check.Unknown || !wait(ctx, time.Duration(dice.IntN(500))*time.Millisecond) {
			break
		}
	}
	if ops[0].Fate == check.OK {
		l.Flows.Add(1)
	}
	for i := range wishes {
		l.follow(ctx, &wishes[i], dice)
	}
	return ops[0].Fate == check.Fail
}

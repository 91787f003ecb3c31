package client

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/job"
)

// uniqueKeys is how many unique keys each caller has of each kind: so few that their jobs meet.
const uniqueKeys = 3

// unique is the member unique of a body.
type unique struct {
	Key   string       `json:"key"`
	While string       `json:"while"`
	On    job.UniqueOn `json:"on"`
}

// uniqueWish makes a job with a unique key: it has no delay, no callback and no Idempotency-Key, and succeeds.
func (l *Load) uniqueWish(tier job.Tier, key int, dice *rand.Rand) wish {
	p := Payload{Key: fmt.Sprintf("%d-%d", l.Seed, l.numbers.Add(1)), File: l.Runs,
		SleepMs: dice.IntN(int(l.MaxSleep.Milliseconds()) + 1)}
	text, _ := json.Marshal(p) // texts and numbers only: it cannot fail
	living := dice.IntN(4) > 0
	on := []job.UniqueOn{job.UniqueReturn, job.UniqueRefuse, job.UniqueReplace, job.UniqueAfter}[dice.IntN(4)]
	while := map[bool]string{true: "living", false: "waiting"}[living]
	u := unique{fmt.Sprint(while, " ", dice.IntN(uniqueKeys)), while, on}
	asked := check.Asked{}
	if len(l.Keys) > 0 {
		asked.Owner = l.Keys[key].ID
	}
	l.askedFor(p.Key, asked)
	l.Unique.Add(1)
	return wish{
		op: check.Op{Kind: "submit", Key: p.Key, Trace: p.Key, Tier: tier, Type: check.Type, Sum: Sum(text),
			Unique: check.Unique{Key: fmt.Sprint(key, " ", u.Key), Living: living, On: on}},
		body: body{Type: check.Type, Payload: text, Unique: &u},
		key:  key,
	}
}

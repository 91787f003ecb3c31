package client

import (
	"math/rand/v2"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/job"
)

// LineTier is the tier whose jobs wait in lines.
const LineTier = job.Unpaid

// These are the keys of lines: the jobs of LineSolo run one after the other, at most two of LinePair run at once, so
// many of LineSlow start per second, and LineFree has no limits.
const (
	LineSlow = "slow"
	LineSolo = "solo"
	LinePair = "pair"
	LineFree = "any number"
)

// lined gives a share of the jobs of LineTier a key of lines, and says so. Such a job has no delay, no callback and no
// Idempotency-Key. A job for an outsider has another queue, and so another line: it is not of the strict key.
func (l *Load) lined(w *wish, dice *rand.Rand) bool {
	if w.op.Tier != LineTier || dice.Float64() >= l.Mix.Line {
		return false
	}
	keys := []string{LinePair, LinePair, LineFree, LineSlow, LineSolo}
	if w.op.Type == check.Elsewhere {
		keys = keys[:4]
	}
	key := keys[dice.IntN(len(keys))]
	w.op.Line, w.body.Line = key, key
	asked := check.Asked{}
	if len(l.Keys) > 0 {
		asked.Owner = l.Keys[w.key].ID
	}
	l.askedFor(w.op.Key, asked)
	l.InLines.Add(1)
	return true
}

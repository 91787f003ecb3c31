package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// Patience is the least time between the look at which a watch first sees a job expired and the look at which it
// reclaims the job. A single stall of Redis therefore takes no job from its holder.
const Patience = 2 * time.Second

// reclaimWords is how many words the script's reply has per job.
const reclaimWords = 7

// Reclaim makes one look of a watch at the expired jobs of a partition: it passes over the first skip jobs and
// looks at up to job.MaxBatch.
func (q *Queue) Reclaim(ctx context.Context, partition int, w job.Watch, skip int) ([]job.Reclaimed, error) {
	b := q.reclaim[w]
	args := []any{string(w.Cause()), skip, job.MaxBatch, ms(Patience)}
	for _, p := range q.plans.All() {
		args = append(args, string(p.Tier), crashesText(p, "-"))
	}
	args = append(args, "*", "-") // for a tier whose plan this process has not read yet
	texts, err := q.texts(ctx, q.redis.Main, b, partition, args)
	if err != nil {
		return nil, err
	}
	if len(texts)%reclaimWords != 0 {
		return nil, fmt.Errorf("reclaim: reply of %d texts", len(texts))
	}
	found := make([]job.Reclaimed, 0, len(texts)/reclaimWords)
	for i := 0; i < len(texts); i += reclaimWords {
		word, err := b.word(texts[i+1])
		if err != nil {
			return nil, err
		}
		found = append(found, job.Reclaimed{
			ID: job.ID(texts[i]), Word: word, Tier: job.Tier(texts[i+2]), Cause: job.Cause(texts[i+3]),
			Attempt: number(texts[i+4]), Spent: number(texts[i+5]), Crashed: number(texts[i+6]),
		})
	}
	return found, nil
}

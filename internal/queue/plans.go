package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/tierq/tierq/internal/job"
)

// LoadPlans reads the plans from Redis into the book. Plans that Redis never had are stored there first, the seed's, and so are those that
// this process served and Redis has lost, their names perhaps too: a tier does not vanish under its jobs. A plan that cannot be served is
// an error and leaves the book as it was.
func (q *Queue) LoadPlans(ctx context.Context) error {
	for range 3 { // Redis may lose everything between any two steps, and another process may store its own first
		plans, missing, err := q.readPlans(ctx)
		if err != nil {
			return err
		}
		served := len(q.plans.All()) > 0
		lost := q.lost(plans)
		if len(lost) == 0 || !missing && !served {
			q.plans.Set(plans)
			return nil
		}
		if err := q.storePlans(ctx, false, lost); err != nil {
			return err
		}
	}
	return fmt.Errorf("plans: %w: they vanish as soon as they are stored", job.ErrUnavailable)
}

// readPlans says missing if there are no plans at all or one that is named is not there.
func (q *Queue) readPlans(ctx context.Context) (plans []job.Plan, missing bool, err error) {
	names, err := q.redis.Main.HGet(ctx, configKey, "tiers").Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, false, classify("plans", err)
	}
	for _, name := range strings.Fields(names) {
		fields, err := q.redis.Main.HGetAll(ctx, planKey(job.Tier(name))).Result()
		if err != nil {
			return nil, false, classify("plans", err)
		}
		if len(fields) == 0 {
			missing = true
			continue
		}
		p, err := readPlan(job.Tier(name), fields)
		if err != nil {
			return nil, false, fmt.Errorf("plans: %w", err)
		}
		plans = append(plans, p)
	}
	return plans, missing || names == "", nil
}

// lost are the plans to store again: those this process knows, or else the seed's, that Redis did not answer.
func (q *Queue) lost(found []job.Plan) []job.Plan {
	known := q.plans.All()
	if len(known) == 0 {
		known = job.DefaultPlans()
	}
	return slices.DeleteFunc(known, func(p job.Plan) bool {
		return slices.ContainsFunc(found, func(f job.Plan) bool { return f.Tier == p.Tier })
	})
}

// StorePlan writes a plan for every process to read, or says why it cannot be served (job.ErrBadPlan).
func (q *Queue) StorePlan(ctx context.Context, p job.Plan) error {
	if err := p.Check(); err != nil {
		return err
	}
	return q.storePlans(ctx, true, []job.Plan{p})
}

// storePlans writes plans and their names in one step, again from the start if another process wrote in between: no name gets lost.
// Without replace, a plan that is there stays.
func (q *Queue) storePlans(ctx context.Context, replace bool, plans []job.Plan) error {
	for {
		err := q.redis.Main.Watch(ctx, func(tx *redis.Tx) error {
			names, err := tx.HGet(ctx, configKey, "tiers").Result()
			if err != nil && !errors.Is(err, redis.Nil) {
				return fmt.Errorf("read the names: %w", err)
			}
			tiers, write := strings.Fields(names), []job.Plan{}
			for _, p := range plans {
				there, err := tx.Exists(ctx, planKey(p.Tier)).Result()
				if err != nil {
					return fmt.Errorf("look for %s: %w", p.Tier, err)
				}
				if replace || there == 0 {
					write = append(write, p)
				}
				if !slices.Contains(tiers, string(p.Tier)) {
					tiers = append(tiers, string(p.Tier))
				}
			}
			_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				for _, p := range write {
					pipe.HSet(ctx, planKey(p.Tier), planFields(p))
				}
				pipe.HSet(ctx, configKey, "tiers", strings.Join(tiers, " "))
				return nil
			})
			return err
		}, configKey)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, redis.TxFailedErr):
			return classify("plans", err)
		}
	}
}

func planFields(p job.Plan) map[string]any {
	return map[string]any{
		"priority": p.Priority, "maxRetries": p.MaxRetries, "heartbeatTimeoutMs": ms(p.HeartbeatTimeout),
		"maxProcessingTimeMs": ms(p.MaxProcessingTime), "share": p.Share, "version": p.Version,
		"backoffBaseMs": ms(p.Backoff.Base), "backoffFactor": p.Backoff.Factor, "backoffCapMs": ms(p.Backoff.Cap), "backoffJitter": p.Backoff.Jitter,
	}
}

func readPlan(t job.Tier, f map[string]string) (job.Plan, error) {
	p := job.Plan{Tier: t}
	var problems []string
	number := func(field string) int64 {
		n, err := strconv.ParseInt(f[field], 10, 64)
		if err != nil {
			problems = append(problems, field)
		}
		return n
	}
	fraction := func(field string) float64 {
		x, err := strconv.ParseFloat(f[field], 64)
		if err != nil {
			problems = append(problems, field)
		}
		return x
	}
	p.Priority, p.MaxRetries, p.Share, p.Version = int(number("priority")), int(number("maxRetries")), int(number("share")), number("version")
	p.HeartbeatTimeout, p.MaxProcessingTime = fromMs(number("heartbeatTimeoutMs")), fromMs(number("maxProcessingTimeMs"))
	p.Backoff = job.Backoff{Base: fromMs(number("backoffBaseMs")), Factor: fraction("backoffFactor"), Cap: fromMs(number("backoffCapMs")), Jitter: fraction("backoffJitter")}
	if len(problems) > 0 {
		return p, fmt.Errorf("%w %q: unreadable: %s", job.ErrBadPlan, t, strings.Join(problems, ", "))
	}
	return p, p.Check()
}

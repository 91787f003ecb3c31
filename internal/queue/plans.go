package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/tierq/tierq/internal/job"
)

// LoadPlans reads the plans from Redis into the book. Plans that Redis has lost, or has in an older version, are stored
// there first: from this process' book, from SQL, or, where none of the three has a plan, from the seed. Redis may have
// lost the tiers' names too: a tier does not vanish under its jobs. A plan that cannot be served is an error and leaves
// the book as it was.
func (q *Queue) LoadPlans(ctx context.Context) error {
	for range 3 { // Redis may lose everything between any two steps, and another process may store its own first
		plans, missing, err := q.readPlans(ctx)
		if err != nil {
			return err
		}
		lost, err := q.lost(ctx, plans, missing)
		if err != nil {
			return fmt.Errorf("plans: %w", err)
		}
		if len(lost) == 0 {
			q.plans.Set(plans)
			return nil
		}
		if err := q.restorePlans(ctx, lost); err != nil {
			return err
		}
	}
	return fmt.Errorf("plans: %w: they vanish as soon as they are stored", job.ErrUnavailable)
}

// DoubtPlans makes the next LoadPlans compare Redis' plans with SQL's: Redis may have lost a change that this process
// has not seen.
func (q *Queue) DoubtPlans() { q.planDoubt.Store(true) }

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

// lost are the plans to store again: those that this process or SQL knows, and that Redis did not answer, or only in an
// older version.
func (q *Queue) lost(ctx context.Context, found []job.Plan, missing bool) ([]job.Plan, error) {
	known := q.plans.All()
	first := len(known) == 0
	if q.opts.RememberedPlans != nil && (first || len(behind(found, known)) > 0 || q.planDoubt.Load()) {
		q.planDoubt.Store(false)
		remembered, err := q.opts.RememberedPlans(ctx)
		switch {
		case err == nil:
			known = newest(known, remembered)
		case first: // the seed's plans must not replace SQL's
			return nil, err
		default: // what this process knows must do until SQL answers
			q.planDoubt.Store(true)
		}
	}
	if first && missing {
		known = newest(known, job.DefaultPlans())
	}
	return behind(found, known), nil
}

// behind are those of the known plans that are not among the found ones, or only in an older version.
func behind(found, known []job.Plan) []job.Plan {
	return slices.DeleteFunc(slices.Clone(known), func(p job.Plan) bool {
		return slices.ContainsFunc(found, func(f job.Plan) bool { return f.Tier == p.Tier && f.Version >= p.Version })
	})
}

// newest takes each tier's newest plan from two lists; of two that are as new, the first list's.
func newest(plans, others []job.Plan) []job.Plan {
	all := behind(plans, others)
	return append(all, slices.DeleteFunc(slices.Clone(plans), func(p job.Plan) bool {
		return slices.ContainsFunc(all, func(o job.Plan) bool { return o.Tier == p.Tier })
	})...)
}

// AnyVersion lets StorePlan replace whatever is there; a version of 0 wants that no plan is there.
const AnyVersion = -1

// StorePlan writes a plan for every process to read, and returns it with its new version. It is job.ErrBadPlan for one
// that cannot be served, and job.ErrChanged if the plan in Redis is not of the version that the caller saw.
func (q *Queue) StorePlan(ctx context.Context, p job.Plan, seen int64) (job.Plan, error) {
	if err := p.Check(); err != nil {
		return p, err
	}
	for {
		err := q.redis.Main.Watch(ctx, func(tx *redis.Tx) error {
			text, err := tx.HGet(ctx, planKey(p.Tier), "version").Result()
			if err != nil && !errors.Is(err, redis.Nil) {
				return fmt.Errorf("read the version: %w", err)
			}
			version, _ := strconv.ParseInt(text, 10, 64)
			if seen != AnyVersion && seen != version {
				return fmt.Errorf("%w: plan %s has version %d", job.ErrChanged, p.Tier, version)
			}
			p.Version = version + 1
			names, err := tx.HGet(ctx, configKey, "tiers").Result()
			if err != nil && !errors.Is(err, redis.Nil) {
				return fmt.Errorf("read the names: %w", err)
			}
			_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				pipe.HSet(ctx, planKey(p.Tier), planFields(p))
				if tiers := strings.Fields(names); !slices.Contains(tiers, string(p.Tier)) {
					pipe.HSet(ctx, configKey, "tiers", strings.Join(append(tiers, string(p.Tier)), " "))
				}
				return nil
			})
			return err
		}, configKey, planKey(p.Tier))
		switch {
		case err == nil:
			return p, nil
		case errors.Is(err, job.ErrChanged):
			return p, err
		case !errors.Is(err, redis.TxFailedErr):
			return p, classify("plan", err)
		}
	}
}

// restorePlans writes plans and their names in one step, again from the start if another process wrote in between: no
// name gets lost. A plan that Redis has in this version, or in a later one, stays.
func (q *Queue) restorePlans(ctx context.Context, plans []job.Plan) error {
	watched := []string{configKey}
	for _, p := range plans {
		watched = append(watched, planKey(p.Tier))
	}
	for {
		err := q.redis.Main.Watch(ctx, func(tx *redis.Tx) error {
			names, err := tx.HGet(ctx, configKey, "tiers").Result()
			if err != nil && !errors.Is(err, redis.Nil) {
				return fmt.Errorf("read the names: %w", err)
			}
			tiers, write := strings.Fields(names), []job.Plan{}
			for _, p := range plans {
				there, err := tx.HGet(ctx, planKey(p.Tier), "version").Int64()
				if err != nil && !errors.Is(err, redis.Nil) {
					return fmt.Errorf("look for %s: %w", p.Tier, err)
				}
				if err != nil || there < p.Version {
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
		}, watched...)
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
		"typeBackoff": typeBackoffText(p.TypeBackoff),
		"priority":    p.Priority, "maxRetries": p.MaxRetries, "heartbeatTimeoutMs": ms(p.HeartbeatTimeout),
		"maxProcessingTimeMs": ms(p.MaxProcessingTime), "share": p.Share, "version": p.Version,
		"backoffBaseMs": ms(p.Backoff.Base), "backoffFactor": p.Backoff.Factor, "backoffCapMs": ms(p.Backoff.Cap),
		"backoffJitter": p.Backoff.Jitter,
	}
}

// typeBackoffText is "" for none, else JSON with durations in ns: only tierq reads it.
func typeBackoffText(b map[string]job.Backoff) string {
	if len(b) == 0 {
		return ""
	}
	text, _ := json.Marshal(b) // numbers that Check has seen: it cannot fail
	return string(text)
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
	p.Priority, p.MaxRetries, p.Share, p.Version = int(number("priority")), int(number("maxRetries")),
		int(number("share")), number("version")
	p.HeartbeatTimeout, p.MaxProcessingTime = fromMs(number("heartbeatTimeoutMs")), fromMs(number("maxProcessingTimeMs"))
	p.Backoff = job.Backoff{Base: fromMs(number("backoffBaseMs")), Factor: fraction("backoffFactor"),
		Cap: fromMs(number("backoffCapMs")), Jitter: fraction("backoffJitter")}
	if text := f["typeBackoff"]; text != "" {
		if err := json.Unmarshal([]byte(text), &p.TypeBackoff); err != nil {
			problems = append(problems, "typeBackoff")
		}
	}
	if len(problems) > 0 {
		return p, fmt.Errorf("%w %q: unreadable: %s", job.ErrBadPlan, t, strings.Join(problems, ", "))
	}
	return p, p.Check()
}

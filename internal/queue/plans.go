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

// LoadPlans reads the plans from Redis into the plan book. First it stores the plans that Redis has lost or has in
// an older version: from this process' book, from SQL or, if neither of them nor Redis has a plan, from the seed.
// It also restores the list of tiers, because jobs of a tier may still be in Redis. A default plan of an earlier
// version is stored again without its maxCrashes. A plan that is not valid is an error and leaves the book as it was.
// At the end LoadPlans sees to it that a Redis that has lost its data gets the places of SQL's jobs.
func (q *Queue) LoadPlans(ctx context.Context) error {
	for range 3 { // Redis may lose everything between any two steps, and another process may store its own plans first
		plans, missing, err := q.readPlans(ctx)
		if err != nil {
			return err
		}
		lost, err := q.lost(ctx, plans, missing)
		if err != nil {
			return fmt.Errorf("plans: %w", err)
		}
		if len(lost) > 0 {
			if err := q.restorePlans(ctx, lost); err != nil {
				return err
			}
			continue
		}
		again, err := q.dropOldCrashes(ctx, plans)
		if err != nil {
			return err
		}
		if !again {
			q.plans.Set(plans)
			q.keepPlaces(ctx)
			return nil
		}
	}
	return fmt.Errorf("plans: %w: they vanish as soon as they are stored", job.ErrUnavailable)
}

// dropOldCrashes stores the default plans of earlier versions again, without their maxCrashes, and says whether there
// were any.
func (q *Queue) dropOldCrashes(ctx context.Context, plans []job.Plan) (again bool, err error) {
	for _, p := range plans {
		without, old := p.WithoutOldCrashes()
		if !old {
			continue
		}
		again = true
		if _, err := q.StorePlan(ctx, without, p.Version); err != nil && !errors.Is(err, job.ErrChanged) {
			return again, err
		}
	}
	return again, nil
}

// DoubtPlans makes the next LoadPlans compare Redis' plans with those in SQL: Redis may have lost a change that
// this process has not seen.
func (q *Queue) DoubtPlans() { q.planDoubt.Store(true) }

// readPlans reads the plans that Redis has. missing is true if Redis has no plans at all, or lacks a plan that its
// list of tiers names.
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

// lost returns the plans to store again: those that this process or SQL has, and that Redis lacks or has in an
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
		default: // this process' plans are used until SQL answers
			q.planDoubt.Store(true)
		}
	}
	if first && missing {
		known = newest(known, job.DefaultPlans())
	}
	return behind(found, known), nil
}

// behind returns the known plans that found lacks or has in an older version.
func behind(found, known []job.Plan) []job.Plan {
	return slices.DeleteFunc(slices.Clone(known), func(p job.Plan) bool {
		return slices.ContainsFunc(found, func(f job.Plan) bool { return f.Tier == p.Tier && f.Version >= p.Version })
	})
}

// newest merges two lists of plans and takes the newer plan of each tier; with equal versions, that of the first
// list.
func newest(plans, others []job.Plan) []job.Plan {
	all := behind(plans, others)
	return append(all, slices.DeleteFunc(slices.Clone(plans), func(p job.Plan) bool {
		return slices.ContainsFunc(all, func(o job.Plan) bool { return o.Tier == p.Tier })
	})...)
}

// AnyVersion makes StorePlan replace a plan of any version. A version of 0 stores a plan only if there is none.
const AnyVersion = -1

// StorePlan writes a plan for all processes and returns it with its new version. The error is job.ErrBadPlan if
// the plan is not valid, and job.ErrChanged if the plan in Redis does not have the version that the caller saw.
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

// restorePlans writes plans and the list of tiers in one transaction, and starts again if another process wrote in
// between, so that no tier is lost. A plan that Redis has in this or a later version stays.
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
		"priority":    p.Priority, "maxRetries": p.MaxRetries, "maxCrashes": crashesText(p, ""), "ownSlots": p.OwnSlots,
		"lines":               string(p.Lines),
		"maxWaitMs":           ms(p.MaxWait),
		"heartbeatTimeoutMs":  ms(p.HeartbeatTimeout),
		"maxProcessingTimeMs": ms(p.MaxProcessingTime), "share": p.Share, "version": p.Version,
		"backoffBaseMs": ms(p.Backoff.Base), "backoffFactor": p.Backoff.Factor, "backoffCapMs": ms(p.Backoff.Cap),
		"backoffJitter": p.Backoff.Jitter,
	}
}

// crashesText returns how many crashes a plan allows, or none if it does not limit them.
func crashesText(p job.Plan, none string) string {
	if p.MaxCrashes == nil {
		return none
	}
	return strconv.Itoa(*p.MaxCrashes)
}

// typeBackoffText returns "" for an empty map, otherwise JSON with durations in ns, which only tierq reads.
func typeBackoffText(b map[string]job.Backoff) string {
	if len(b) == 0 {
		return ""
	}
	text, _ := json.Marshal(b) // Marshal cannot fail: Check has accepted the numbers
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
	p.Lines = job.Lines(f["lines"])
	if f["ownSlots"] != "" { // a plan of an earlier version lacks it
		p.OwnSlots = int(number("ownSlots"))
	}
	if f["maxWaitMs"] != "" { // the same
		p.MaxWait = fromMs(number("maxWaitMs"))
	}
	if f["maxCrashes"] != "" {
		p.MaxCrashes = new(int(number("maxCrashes")))
	}
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

package sim

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// This file has lines: which seeds have tiers with lines, the keys of their jobs, the limits that operators set, and
// SQL's table of limits. shadow_lines.go and shadow_limits.go have what the scripts may do with jobs in lines.
//
// S27: a claim takes the better tiers first, also where their jobs wait in lines. In each line jobs start in the order
// of arrival. No attempt of a key starts that its limits forbid: not more at once than running says, with strict one
// after the other and none while a retry is due, none while the key is paused, and no more than its rate. A claim with
// free slots takes as many jobs as the limits of their keys allow, whatever the limits of other keys are. A line whose
// key may run is not parked for longer than until the next promotion. At rest Redis has the limits that SQL has.

// lineKeys are the keys of the lines of a seed; "" = a job without a key.
var lineKeys = []string{"ann", "b ob", ""}

// linesOf gives some tiers of a third of the seeds lines, their jobs keys, and the keys limits that change.
func (p *plan) linesOf(r *rand.Rand) {
	if r.IntN(3) > 0 {
		return
	}
	p.lines = map[job.Tier]bool{added.Tier: r.IntN(2) == 0}
	all := tiers()
	for i := range all {
		p.lines[all[i].Tier] = r.IntN(3) > 0
	}
	p.lines[all[r.IntN(len(all))].Tier] = true
	keys := lineKeys[:1+r.IntN(len(lineKeys))]
	var jobs []order
	for i := range p.orders {
		switch o := &p.orders[i]; o.what {
		case "submit":
			o.line = p.lineFor(o.tier, keys[r.IntN(len(keys))])
			jobs = append(jobs, *o)
		case "plans":
			o.tiers = p.withLines(o.tiers)
		}
	}
	p.moreInLines(r, jobs, keys)
	p.notes = p.journal && r.IntN(2) == 0
	for range r.IntN(7) {
		key := job.LineOf(keys[r.IntN(len(keys))])
		if key == "" {
			key = job.NoKey
		}
		o := order{at: ticks(r, 0, 70), what: "limit", process: r.IntN(len(p.slots)), tries: 1 + r.IntN(3)}
		o.limits = job.LineLimits{Name: key, Running: r.IntN(3), Strict: r.IntN(3) == 0, Weight: r.IntN(4)}
		if r.IntN(4) == 0 {
			o.limits.Rate, o.limits.Burst = []float64{0.7, 2, 3}[r.IntN(3)], 1+r.IntN(2)
		}
		if r.IntN(4) == 0 {
			o.length, o.limits.Paused = ticks(r, 5, 60), &job.LinePause{}
		}
		p.orders = append(p.orders, o)
	}
	for range r.IntN(4) {
		p.orders = append(p.orders, order{at: ticks(r, 1, 60), what: "damage", tries: r.IntN(4)})
	}
	for _, s := range p.storms {
		if s.what != "Redis forgets" {
			continue
		}
		for range 3 { // jobs that wait in lines are killed, and Redis forgets that before SQL has their ends
			p.orders = append(p.orders, order{at: max(s.at-ticks(r, 0, 6), 0), what: "kill", process: r.IntN(len(p.slots)),
				id: jobs[r.IntN(len(jobs))].id})
		}
	}
}

// moreInLines adds submits soon after others, so that more than one job of a key waits.
func (p *plan) moreInLines(r *rand.Rand, jobs []order, keys []string) {
	for i := range 3 + r.IntN(8) {
		o := jobs[r.IntN(len(jobs))]
		o.id = job.ID(fmt.Sprintf("%08x-0000-7000-8000-%010x%02x", 0x500+i, 0x500+i, o.id.Partition()))
		o.at, o.process, o.once, o.delay = o.at+ticks(r, 0, 6), r.IntN(len(p.slots)), job.Idempotency{}, 0
		o.expires, o.key, o.turned, o.still, o.line = 0, "", false, "", p.lineFor(o.tier, keys[r.IntN(len(keys))])
		p.orders = append(p.orders, o)
	}
}

// lineFor returns the name of the line of a submit to a tier.
func (p *plan) lineFor(tier job.Tier, key string) string {
	of := job.Plan{Lines: job.LinesOff}
	if p.lines[tier] {
		of.Lines = job.LinesKey
	} else {
		key = ""
	}
	return of.LineFor(job.LineOf(key), "")
}

// withLines returns plans of which those tiers have lines that have them in the seed.
func (p *plan) withLines(plans []job.Plan) []job.Plan {
	plans = slices.Clone(plans)
	for i := range plans {
		if p.lines[plans[i].Tier] {
			plans[i].Lines = job.LinesKey
		}
	}
	return plans
}

// limit sets the limits of a key. A pause ends by itself after the order's length.
func (c *client) limit(p *process) {
	limits := c.limits
	if limits.Paused != nil {
		limits.Paused = &job.LinePause{Since: c.began, Until: c.began.Add(c.length)}
	}
	for range c.tries {
		_, err := p.limits.SetLimits(context.Background(), limits, -1)
		if c.fate = told(err); c.fate == taken {
			return
		}
		<-time.After(2 * grid)
	}
}

// LineLimits returns the limits of all keys.
func (a archive) LineLimits(ctx context.Context) ([]job.LineLimits, error) {
	return ask(ctx, a.p, "sql line limits", "", func(d *database) ([]job.LineLimits, error) { return d.lineLimits(), nil })
}

func (d *database) lineLimits() (all []job.LineLimits) {
	for _, name := range slices.Sorted(maps.Keys(d.limits)) {
		if l := d.limits[name]; !l.None() {
			all = append(all, l)
		}
	}
	return all
}

// LimitsOf returns the limits of a key.
func (a archive) LimitsOf(ctx context.Context, name string) (job.LineLimits, error) {
	return ask(ctx, a.p, "sql limits of", name, func(d *database) (job.LineLimits, error) { return d.limits[name], nil })
}

// StoreLimits replaces the limits of a key. The simulation asks for no version.
func (a archive) StoreLimits(ctx context.Context, l job.LineLimits, _ int64) (job.LineLimits, error) {
	return ask(ctx, a.p, "sql store limits", l.Name, func(d *database) (job.LineLimits, error) {
		l.Version = d.limits[l.Name].Version + 1
		d.limits[l.Name] = l
		return l, nil
	})
}

// unsynced names the keys whose limits in Redis are not those of SQL; none = all are.
func (w *World) unsynced() (keys []string) {
	if w.plan.lines == nil {
		return nil
	}
	client := w.direct()
	defer func() { _ = client.Close() }()
	q := w.queueOn(client)
	other, err := q.OtherLimits(context.Background(), 0, w.sql.lineLimits())
	if err != nil {
		w.fail("S27", "%v", err)
	}
	for i := range other {
		keys = append(keys, "the limits of the key "+other[i].Name)
	}
	return keys
}

// onlyRates says whether the keys of lines have nothing but the time of a rate: Redis keeps that until the next event
// of the key.
func (w *World) onlyRates(key string) bool {
	pairs, _ := w.store.do("HGETALL", key)
	for texts := strs(pairs); len(texts) > 1; texts = texts[2:] {
		if f := strings.Fields(texts[1]); len(f) != 3 || f[0] != "0" || f[1] == "0.000" || f[2] != "-" {
			return false
		}
	}
	return true
}

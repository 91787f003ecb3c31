package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// layout is a way to lay out the jobs in Redis: the shipped scripts with some lines replaced, so that everything else
// stays the same.
type layout struct {
	name  string
	owner string              // of the jobs; "" = they have none
	edits map[string][]string // script -> old, new, old, new, ...
}

// derive applies the edits. Text that is no longer in a shipped script is an error: the comparison must not quietly
// become another one.
func (v layout) derive() (scripts, error) {
	s := shipped()
	if v.owner != "" {
		s.owner = v.owner
	}
	for name, target := range map[string]*string{"prelude": &s.prelude, "submit": &s.submit, "claim": &s.claim,
		"complete": &s.complete, "acknowledge": &s.acknowledge} {
		edits := v.edits[name]
		for i := 0; i < len(edits); i += 2 {
			if strings.Count(*target, edits[i]) != 1 {
				return s, fmt.Errorf("layout %s: %s.lua no longer says once: %s", v.name, name, edits[i])
			}
			*target = strings.Replace(*target, edits[i], edits[i+1], 1)
		}
	}
	return s, nil
}

// layoutBench runs every layout; each run starts with another one.
func layoutBench(ctx context.Context, l *lab) (figures []figure, err error) {
	n := l.scaled(50000, 500)
	costs := map[string]time.Duration{}
	for i := range layouts {
		v := layouts[(i+l.turn)%len(layouts)]
		s, err := v.derive()
		if err != nil {
			return nil, err
		}
		cost, err := l.live(ctx, s, n)
		if err != nil {
			return nil, fmt.Errorf("layout %s: %w", v.name, err)
		}
		costs[v.name] = cost.cpu
		figures = append(figures,
			figure{v.name + ": cpu", "us/job", micros(cost.cpu, n)},
			figure{v.name + ": in scripts", "us/job", micros(cost.script, n)},
			figure{v.name + ": queued", "B/job", cost.queued}, figure{v.name + ": ended", "B/job", cost.ended},
			figure{v.name + ": AOF", "B/job", cost.aof})
		if v.name == layouts[0].name {
			for k, verb := range verbs {
				figures = append(figures, figure{v.name + ": cpu of " + verb, "us/job", micros(cost.verbs[k], n)})
			}
		}
	}
	for _, v := range layouts[1:] {
		figures = append(figures, figure{v.name + ": cpu against a, same run", "x",
			float64(costs[v.name]) / float64(costs[layouts[0].name])})
	}
	return figures, nil
}

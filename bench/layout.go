package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// layout is a way to lay out the job hash: the shipped scripts with some lines replaced, so that everything else stays
// the same.
type layout struct {
	name  string
	about string
	// fields is how many texts the claim answers per lease.
	fields int
	edits  map[string][]string // script -> old, new, old, new, ...
}

// derive applies the edits. Text that is no longer in a shipped script is an error: the comparison must not quietly
// become another one.
func (v layout) derive() (scripts, error) {
	s := shipped()
	if v.about != "" {
		s.about = v.about
	}
	if v.fields > 0 {
		s.fields = v.fields
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

// layoutBench runs every layout under both limits; each run starts with another layout.
func layoutBench(ctx context.Context, l *lab) (figures []figure, err error) {
	n := l.scaled(50000, 500)
	for _, limit := range limits {
		err := l.withListpack(ctx, limit, func() error {
			costs := map[string]time.Duration{}
			for i := range layouts {
				v := layouts[(i+l.turn)%len(layouts)]
				s, err := v.derive()
				if err != nil {
					return err
				}
				cost, err := l.live(ctx, s, n)
				if err != nil {
					return fmt.Errorf("layout %s: %w", v.name, err)
				}
				costs[v.name] = cost.cpu
				name := fmt.Sprintf("listpack %d, %s", limit, v.name)
				figures = append(figures,
					figure{name + ": cpu", "us/job", micros(cost.cpu, n)},
					figure{name + ": in scripts", "us/job", micros(cost.script, n)},
					figure{name + ": queued", "B/job", cost.queued}, figure{name + ": ended", "B/job", cost.ended})
				for k, verb := range verbs {
					if v.edits == nil {
						figures = append(figures, figure{name + ": cpu of " + verb, "us/job", micros(cost.verbs[k], n)})
					}
				}
			}
			for _, v := range layouts[1:] {
				figures = append(figures, figure{fmt.Sprintf("listpack %d, %s: cpu against a, same run", limit, v.name), "x",
					float64(costs[v.name]) / float64(costs[layouts[0].name])})
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return figures, nil
}

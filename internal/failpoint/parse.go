//go:build failpoint

package failpoint

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

type action int

const (
	kill action = iota
	stop
	sleep
)

// point is what happens at one named point.
type point struct {
	action action
	pause  time.Duration
	only   int64 // the number of the hit that acts; 0 = all
	hits   atomic.Int64
}

func parse(spec string) (map[string]*point, error) {
	points := map[string]*point{}
	for part := range strings.SplitSeq(spec, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, what, ok := strings.Cut(part, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("%q is not name=action", part)
		}
		p, err := parsePoint(what)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if _, twice := points[name]; twice {
			return nil, fmt.Errorf("%s is named twice", name)
		}
		points[name] = p
	}
	return points, nil
}

func parsePoint(what string) (*point, error) {
	p := &point{}
	if rest, at, ok := strings.Cut(what, "@"); ok {
		n, err := strconv.ParseInt(at, 10, 64)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("@%s is not a hit, counted from 1", at)
		}
		what, p.only = rest, n
	}
	verb, argument, _ := strings.Cut(what, ":")
	switch verb {
	case "kill":
		p.action = kill
	case "stop":
		p.action = stop
	case "sleep":
		pause, err := time.ParseDuration(argument)
		if err != nil || pause < 0 {
			return nil, fmt.Errorf("sleep wants a duration, as in sleep:200ms, not %q", argument)
		}
		p.action, p.pause = sleep, pause
		return p, nil
	default:
		return nil, fmt.Errorf("%q is none of kill, stop, sleep:<duration>", what)
	}
	if argument != "" {
		return nil, fmt.Errorf("%s takes no argument", verb)
	}
	return p, nil
}

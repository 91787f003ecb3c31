package job

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestBackoff(t *testing.T) {
	b := DefaultBackoff()
	for _, tc := range []struct {
		n      int
		random float64
		want   time.Duration
	}{
		{0, 0.5, 2 * time.Second}, {1, 0.5, 4 * time.Second}, {3, 0.5, 16 * time.Second},
		{0, 0, 1600 * time.Millisecond}, {0, 1, 2400 * time.Millisecond},
		{8, 0.5, 300 * time.Second}, {8, 1, 300 * time.Second}, {8, 0, 240 * time.Second}, {1000, 0.5, 300 * time.Second},
	} {
		if got := b.Delay(tc.n, tc.random); got != tc.want {
			t.Errorf("retry %d, random %.1f: %s, want %s", tc.n, tc.random, got, tc.want)
		}
	}
	if got := (Backoff{}).Delay(5, 0.5); got != 0 {
		t.Errorf("none: %s", got)
	}
}

func TestPlanCheck(t *testing.T) {
	for _, p := range DefaultPlans() {
		if err := p.Check(); err != nil {
			t.Error(err)
		}
	}
	for name, change := range map[string]func(*Plan){
		"lower case":       func(p *Plan) { p.Tier = "paid" },
		"a space":          func(p *Plan) { p.Tier = "PAID X" },
		"a colon":          func(p *Plan) { p.Tier = "PAID:X" },
		"reserved":         func(p *Plan) { p.Tier = "ADMIN" },
		"a page":           func(p *Plan) { p.Tier = "LOGIN" },
		"priority 0":       func(p *Plan) { p.Priority = 0 },
		"priority 900":     func(p *Plan) { p.Priority = 900 },
		"negative retries": func(p *Plan) { p.MaxRetries = -1 },
		"negative crashes": func(p *Plan) { p.MaxCrashes = new(-1) },
		"101 crashes":      func(p *Plan) { p.MaxCrashes = new(101) },
		"no time to wait":  func(p *Plan) { p.MaxWait = time.Second - 1 },
		"a negative wait":  func(p *Plan) { p.MaxWait = -time.Second },
		"a wait of months": func(p *Plan) { p.MaxWait = MaxMaxWait + 1 },
		"no heartbeat":     func(p *Plan) { p.HeartbeatTimeout = 0 },
		"no time":          func(p *Plan) { p.MaxProcessingTime = 0 },
		"share 0":          func(p *Plan) { p.Share = 0 },
		"share 101":        func(p *Plan) { p.Share = 101 },
		"backoff shrinks":  func(p *Plan) { p.Backoff.Factor = 0.5 },
		"cap below base":   func(p *Plan) { p.Backoff.Cap = time.Second },
		"jitter over 1":    func(p *Plan) { p.Backoff.Jitter = 2 },
		"a long type": func(p *Plan) {
			p.TypeBackoff = map[string]Backoff{strings.Repeat("A", MaxTypeName+1): p.Backoff}
		},
	} {
		p := DefaultPlans()[0]
		change(&p)
		if err := p.Check(); !errors.Is(err, ErrBadPlan) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPlanBook(t *testing.T) {
	var b PlanBook
	if _, ok := b.Plan(Paid); ok || len(b.All()) != 0 {
		t.Error("an empty book has plans")
	}
	plans := DefaultPlans()
	b.Set([]Plan{plans[2], plans[0], plans[1]})
	if p, ok := b.Plan(Unpaid); !ok || p.MaxRetries != 2 {
		t.Errorf("%+v, %v", p, ok)
	}
	if all := b.All(); len(all) != 3 || all[0].Tier != Paid || all[2].Tier != Public {
		t.Errorf("not best first: %v", all)
	}
}

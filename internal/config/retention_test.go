package config

import (
	"strings"
	"testing"
	"time"
)

const days = 24 * time.Hour

func TestSQLRetention(t *testing.T) {
	for text, want := range map[string]map[string]time.Duration{
		"": {"results": 90 * days, "dead": 90 * days, "cancelled": 90 * days, "changes": 90 * days, "mails": 90 * days,
			"PAID.results": 90 * days},
		"30d": {"results": 30 * days, "mails": 30 * days, "PUBLIC.dead": 30 * days},
		"0":   {"results": 0, "changes": 0, "PAID.dead": 0},
		" 90d , dead = 1y,PUBLIC.results=7d,changes=forever,mails=36h,results=2w": {
			"results": 14 * days, "PAID.results": 14 * days, "PUBLIC.results": 7 * days, "dead": 365 * days,
			"PUBLIC.dead": 365 * days,
			"cancelled":   90 * days, "changes": 0, "mails": 36 * time.Hour,
		},
		"forever,GOLD_2.cancelled=2d": {"cancelled": 0, "GOLD_2.cancelled": 2 * days, "GOLD.cancelled": 0},
	} {
		c, problems := load(t, "TIERQ_SQL_RETENTION="+text)
		if problems != nil {
			t.Errorf("%q: %v", text, problems)
			continue
		}
		for name, age := range want {
			got := c.SQLAges().Of(name)
			if tier, word, tiered := strings.Cut(name, "."); tiered {
				got = c.SQLAges().OfTier(tier, word)
			}
			if got != age {
				t.Errorf("%q: %s are kept for %v, want %v", text, name, got, age)
			}
		}
	}
	for text, want := range map[string]time.Duration{"0": 0, "90d": 90 * days, "90d,PUBLIC.dead=2d,changes=1d": 2 * days,
		"0,results=3d,mails=1d": 3 * days} {
		if c, _ := load(t, "TIERQ_SQL_RETENTION="+text); c.SQLAges().Shortest() != want {
			t.Errorf("%q: the shortest is %v, want %v", text, c.SQLAges().Shortest(), want)
		}
	}
}

// The default of TIERQ_SQL_RETENTION is at least Redis' retention, so that setting only the latter is no problem.
func TestSQLRetentionFollowsRedis(t *testing.T) {
	for _, tc := range []struct {
		env  []string
		want time.Duration
	}{
		{[]string{"TIERQ_RETENTION=2160h"}, 90 * days},
		{[]string{"TIERQ_RETENTION=2161h"}, 2161 * time.Hour},
		{[]string{"TIERQ_FAILED_RETENTION=8760h", "TIERQ_RETENTION=4000h"}, 365 * days},
		{[]string{"TIERQ_RETENTION=2400h1ms", "TIERQ_SQL_RETENTION="}, 2401 * time.Hour},
	} {
		c, problems := load(t, tc.env...)
		if problems != nil {
			t.Errorf("%v: %v", tc.env, problems)
			continue
		}
		for _, word := range ageWords {
			if got := c.SQLAges().Of(word); got != tc.want {
				t.Errorf("%v: %s are kept for %v, want %v", tc.env, word, got, tc.want)
			}
		}
	}
}

// Every mistake is reported, all of them together, and an age below Redis' retention is a mistake.
func TestSQLRetentionProblems(t *testing.T) {
	for text, want := range map[string][]string{
		"90":                          {`"90" is not an age`},
		"90 days":                     {`"90 days" is not an age`},
		"d":                           {`"d" is not an age`},
		"-1d":                         {`"-1d" is not an age`},
		"+2d":                         {`"+2d" is not an age`},
		"1h":                          {"must be 24h to 100y"},
		"101y":                        {"must be 24h to 100y"},
		"9223372036854775807y":        {"must be 24h to 100y"},
		"90d,letters=7d":              {`"letters" is none of results, dead, cancelled, changes, mails`},
		"90d,public.results=7d":       {`"public.results" is none of`},
		"90d,PUBLIC=7d":               {`"PUBLIC" is none of`},
		"90d,PUBLIC.changes=7d":       {`"PUBLIC.changes" is none of`},
		"90d,history=7d":              {"are deleted with its outcome"},
		"90d,artifacts=7d":            {"are deleted with its outcome"},
		"90d,30d":                     {"only the first age may have no name"},
		"dead=7d":                     {"for all that have none of their own: write 90d,dead=7d"},
		"90d,dead=7d,dead=8d":         {"dead has an age already"},
		"90d,,":                       {`"" is not an age`, `"" is not an age`},
		"x,letters=7d,dead=1m,mails=": {`"x" is not`, `"letters" is none`, `"dead=1m" is not an age`, `"mails=" is not`},
	} {
		_, problems := load(t, "TIERQ_SQL_RETENTION="+text)
		if len(problems) != len(want) {
			t.Errorf("%q: %q", text, problems)
			continue
		}
		for i := range want {
			if !strings.HasPrefix(problems[i], "TIERQ_SQL_RETENTION=") || !strings.Contains(problems[i], want[i]) {
				t.Errorf("%q: %q, want %q", text, problems[i], want[i])
			}
		}
	}
	for _, tc := range []struct {
		env  []string
		want []string
	}{
		{[]string{"TIERQ_RETENTION=48h", "TIERQ_SQL_RETENTION=90d,results=47h,dead=24h"},
			[]string{"results are kept for less than TIERQ_RETENTION=48h"}},
		{[]string{"TIERQ_RETENTION=48h", "TIERQ_SQL_RETENTION=2d"}, nil},
		{[]string{"TIERQ_RETENTION=2161h", "TIERQ_SQL_RETENTION=90d"}, []string{
			"cancelled are kept for less than TIERQ_RETENTION", "results are kept for less than TIERQ_RETENTION",
		}},
		{[]string{"TIERQ_FAILED_RETENTION=720h", "TIERQ_SQL_RETENTION=90d,PAID.dead=29d,PAID.results=7d"},
			[]string{"PAID.dead are kept for less than TIERQ_FAILED_RETENTION"}},
		{[]string{"TIERQ_IDEMPOTENCY_TTL=168h", "TIERQ_SQL_RETENTION=90d,cancelled=6d,PUBLIC.dead=1d,changes=1d"},
			[]string{"PUBLIC.dead are kept for less than TIERQ_IDEMPOTENCY_TTL",
				"cancelled are kept for less than TIERQ_IDEMPOTENCY_TTL"}},
	} {
		_, problems := load(t, tc.env...)
		got := strings.Join(problems, "\n")
		if len(problems) != len(tc.want) {
			t.Errorf("%v: %q", tc.env, got)
		}
		for _, want := range tc.want {
			if !strings.Contains(got, want) {
				t.Errorf("%v: %q, want %q", tc.env, got, want)
			}
		}
	}
}

package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestFaktory(t *testing.T) {
	c, problems := load(t, "TIERQ_FAKTORY_ADDR=0.0.0.0:7419", "TIERQ_FAKTORY_QUEUES= critical=paid  bulk*=PUBLIC *=UNPAID")
	if problems != nil {
		t.Fatal(problems)
	}
	if got := fmt.Sprint(c.FaktoryTiers()); got != "[{critical PAID} {bulk* PUBLIC} {* UNPAID}]" || !c.Faktory() {
		t.Errorf("its tiers are %s", got)
	}
	if wide := c.Wide(); len(wide) != 1 || wide[0] != "TIERQ_FAKTORY_ADDR=0.0.0.0:7419" {
		t.Errorf("other machines reach %v", wide)
	}
	for _, one := range []struct{ set, want string }{
		{"TIERQ_FAKTORY_ADDR=7419", "TIERQ_FAKTORY_ADDR"},
		{"TIERQ_FAKTORY_QUEUES=critical", "TIERQ_FAKTORY_QUEUES"},
		{"TIERQ_FAKTORY_QUEUES==PAID", "TIERQ_FAKTORY_QUEUES"},
		{"TIERQ_FAKTORY_QUEUES=a/b=PAID", "TIERQ_FAKTORY_QUEUES"},
		{"TIERQ_FAKTORY_TLS_CERT=x", "TIERQ_FAKTORY_TLS_KEY: not set"},
		{"TIERQ_FAKTORY_TLS_KEY=x", "TIERQ_FAKTORY_TLS_CERT: not set"},
	} {
		if _, problems := load(t, one.set); len(problems) != 1 || !strings.Contains(problems[0], one.want) {
			t.Errorf("%s: %q", one.set, problems)
		}
	}
}

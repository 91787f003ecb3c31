package config

import (
	"fmt"
	"strings"

	"github.com/tierq/tierq/internal/job"
)

// QueueTier says which tier the jobs of a queue get whose job names none. A queue with a * at its end stands for all
// queues that begin so.
type QueueTier struct {
	Queue string
	Tier  job.Tier
}

// Faktory reports whether this process serves the protocol of Faktory.
func (c Config) Faktory() bool { return c.FaktoryAddr != "" && c.Roles.API }

// FaktoryTiers returns what TIERQ_FAKTORY_QUEUES says.
func (c Config) FaktoryTiers() []QueueTier {
	tiers, _ := parseQueueTiers(c.FaktoryQueues) // Load has checked the text
	return tiers
}

func parseQueueTiers(text string) (tiers []QueueTier, err error) {
	for one := range strings.FieldsSeq(text) {
		queue, tier, ok := strings.Cut(one, "=")
		bare := strings.TrimSuffix(queue, "*")
		if !ok || tier == "" || queue == "" || bare != "" && !job.IsQueueName(bare) {
			return nil, fmt.Errorf("%q is not like critical=PAID or bulk*=PUBLIC", one)
		}
		tiers = append(tiers, QueueTier{queue, job.Tier(strings.ToUpper(tier))})
	}
	return tiers, nil
}

func (l *loader) checkFaktory(c Config) {
	if c.FaktoryAddr != "" {
		l.checkListener("TIERQ_FAKTORY_ADDR", c.FaktoryAddr)
	}
	if _, err := parseQueueTiers(c.FaktoryQueues); err != nil {
		l.problem("TIERQ_FAKTORY_QUEUES", err.Error())
	}
	switch {
	case c.FaktoryTLSCert != "" && c.FaktoryTLSKey == "":
		l.problem("TIERQ_FAKTORY_TLS_KEY", "not set, but TIERQ_FAKTORY_TLS_CERT is; set both or neither")
	case c.FaktoryTLSCert == "" && c.FaktoryTLSKey != "":
		l.problem("TIERQ_FAKTORY_TLS_CERT", "not set, but TIERQ_FAKTORY_TLS_KEY is; set both or neither")
	}
}

package config

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
)

// alike are the settings that should be the same on all processes of a cluster: each process applies its own value
// to data that all of them share. (Settings with which the processes would corrupt each other's data are compared
// in Redis: see queue.CheckSetup.)
var alike = []string{
	"TIERQ_RETENTION", "TIERQ_FAILED_RETENTION", "TIERQ_KEEP_ENDED", "TIERQ_SQL_RETENTION", "TIERQ_IDEMPOTENCY_TTL",
	"TIERQ_BLOB_URL", "TIERQ_WEBHOOK_SECRET",
}

// Alike returns the values of the settings that should be the same on all processes, by name, so that other
// processes can compare them with theirs. It shows no password, and only a fingerprint of a secret.
func (c Config) Alike() map[string]string {
	values := make(map[string]string, len(alike))
	for _, s := range table {
		if !slices.Contains(alike, s.Name) {
			continue
		}
		value := c.shown(s)
		if value == hidden {
			sum := sha256.Sum256([]byte(s.Name + "=" + c.WebhookSecret))
			value = "set, fingerprint " + hex.EncodeToString(sum[:4])
		}
		if value == "" {
			value = "unset"
		}
		values[s.Name] = value
	}
	return values
}

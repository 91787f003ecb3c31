package config

import (
	"strings"
	"testing"
)

// Alike has every setting of its list, shows no secret, and its fingerprints differ for different secrets.
func TestAlike(t *testing.T) {
	t.Parallel()
	c := Config{SQLRetention: "30d", WebhookSecret: "whsec_one", BlobURL: "s3://id:hush@bucket?region=x"}
	got := c.Alike()
	for _, name := range alike {
		if got[name] == "" {
			t.Errorf("%s is missing", name)
		}
		if strings.Contains(got[name], "whsec_") || strings.Contains(got[name], "hush") {
			t.Errorf("%s shows a secret: %s", name, got[name])
		}
	}
	if len(got) != len(alike) || got["TIERQ_SQL_RETENTION"] != "30d" {
		t.Error(got)
	}
	c.WebhookSecret = "whsec_two"
	if other := c.Alike()["TIERQ_WEBHOOK_SECRET"]; other == got["TIERQ_WEBHOOK_SECRET"] {
		t.Errorf("two secrets have the fingerprint %s", other)
	}
	c.WebhookSecret = ""
	if other := c.Alike()["TIERQ_WEBHOOK_SECRET"]; other != "unset" {
		t.Error(other)
	}
}

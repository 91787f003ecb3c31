package client

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The verifier accepts the specification's own example, and one with a key pair.
func TestWebhookVerifier(t *testing.T) {
	t.Parallel()
	const secret, id = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek"
	body, at := []byte(`{"test": 2432232314}`), time.Unix(1614265330, 0)
	pair := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32))
	public := "whpk_" + base64.StdEncoding.EncodeToString(pair.Public().(ed25519.PublicKey))
	v1 := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	v1a := "v1a," + base64.StdEncoding.EncodeToString(ed25519.Sign(pair, append([]byte(id+".1614265330."), body...)))
	header := func(signature string) http.Header {
		return http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {"1614265330"}, "Webhook-Signature": {signature}}
	}
	verifier := func(at time.Time, keys ...string) *WebhookVerifier {
		v, err := NewWebhookVerifier(keys...)
		if err != nil {
			t.Fatal(err)
		}
		v.now = func() time.Time { return at }
		return v
	}
	for _, c := range []struct {
		name string
		v    *WebhookVerifier
		h    http.Header
		body string
		good bool
	}{
		{"its secret", verifier(at, secret), header(v1), string(body), true},
		{"its public key", verifier(at, public), header(v1a), string(body), true},
		{"among others", verifier(at, secret, public), header("v2,x v1,AAAA " + v1a), string(body), true},
		{"several headers", verifier(at, public), http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {"1614265330"},
			"Webhook-Signature": {v1, v1a}}, string(body), true},
		{"late", verifier(at.Add(299*time.Second), secret), header(v1), string(body), true},
		{"too late", verifier(at.Add(301*time.Second), secret), header(v1), string(body), false},
		{"from the future", verifier(at.Add(-301*time.Second), secret), header(v1), string(body), false},
		{"another body", verifier(at, secret, public), header(v1 + " " + v1a), string(body) + " ", false},
		{"no signature", verifier(at, secret, public), header(""), string(body), false},
		{"the public key as a secret", verifier(at, "whsec_"+strings.TrimPrefix(public, "whpk_")), header(v1a),
			string(body), false},
		{"a signature of the other version", verifier(at, secret, public), header("v1" + v1a[3:] + " v1a" + v1[2:]),
			string(body), false},
		{"no headers", verifier(at, secret), http.Header{}, string(body), false},
	} {
		got, err := c.v.Verify(c.h, []byte(c.body))
		if c.good && (got != id || err != nil) || !c.good && (got != "" || !errors.Is(err, ErrBadSignature)) {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
	for _, wrong := range [][]string{{}, {""}, {"MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}, {"whsec_MfKQ"},
		{"whpk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}, {secret, "whsk_AAAA"}} {
		if _, err := NewWebhookVerifier(wrong...); err == nil || strings.Contains(err.Error(), "MfKQ") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

// The id of a callback names its job and the job's generation. The same body under another id is not a callback.
func TestWebhookVerifier_JobEnded(t *testing.T) {
	t.Parallel()
	secret := bytes.Repeat([]byte{7}, 32)
	v, err := NewWebhookVerifier("whsec_" + base64.StdEncoding.EncodeToString(secret))
	if err != nil {
		t.Fatal(err)
	}
	body := `{"type":"job.failed","timestamp":"2026-05-01T11:31:58.002000Z","data":{"jobId":"j","generation":2,` +
		`"owner":"aaaaaaaaaaaaaaaa","status":"FAILED",` +
		`"tier":"PAID","type":"SIMULATION","completedAt":null,"failedAt":"2026-05-01T11:31:58.002000Z","result":null,` +
		`"failureCause":"HANDLER_ERROR","lastError":"boom"}}`
	header := func(id, body string) http.Header {
		stamp := strconv.FormatInt(time.Now().Unix(), 10)
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(id + "." + stamp + "." + body))
		return http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {stamp},
			"Webhook-Signature": {"v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))}}
	}
	e, err := v.JobEnded(header("j_2", body), []byte(body))
	if err != nil || e.Type != "job.failed" || e.Data.Owner != "aaaaaaaaaaaaaaaa" || e.Data.Status != Failed ||
		e.Data.LastError != "boom" ||
		e.Data.FailedAt.IsZero() || !e.Data.CompletedAt.IsZero() {
		t.Errorf("%+v, %v", e, err)
	}
	for _, id := range []string{"j", "j_1", "j_22", "k_2"} {
		if _, err := v.JobEnded(header(id, body), []byte(body)); !errors.Is(err, ErrBadSignature) {
			t.Errorf("under the id %s: %v", id, err)
		}
	}
	if _, err := v.JobEnded(header("j_2", "no event"), []byte("no event")); err == nil || errors.Is(err,
		ErrBadSignature) {
		t.Errorf("no event: %v", err)
	}
	if _, err := v.JobEnded(http.Header{}, []byte(body)); !errors.Is(err, ErrBadSignature) {
		t.Errorf("not signed: %v", err)
	}
}

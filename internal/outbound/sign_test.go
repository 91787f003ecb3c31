package outbound

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

func secretOf(n int) string {
	return "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{byte(n)}, n))
}

// Another implementation verifies what goes over the wire, also while the secret is being replaced.
func TestSignature(t *testing.T) {
	t.Attr("proves", "S1-P4")
	type message struct {
		header http.Header
		body   []byte
	}
	var got message
	r := receive(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = message{r.Header, body}
	})
	secrets, err := ParseSecrets(secretOf(24) + " " + secretOf(64))
	if err != nil {
		t.Fatal(err)
	}
	c := client(t, Options{Allow: loopback, Secrets: secrets})
	if _, err := c.Do(t.Context(), Request{Method: "POST", URL: r.URL, Body: []byte(`{"ä": "<\n>"}`), MessageID: "the-job"}); err != nil {
		t.Fatal(err)
	}
	verify := func(secret string, m message) error {
		hook, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		return hook.Verify(m.body, m.header)
	}
	for _, secret := range []string{secretOf(24), secretOf(64)} {
		if err := verify(secret, got); err != nil {
			t.Errorf("not verified: %v", err)
		}
	}
	if verify(secretOf(32), got) == nil {
		t.Error("verified with another secret")
	}
	for name, change := range map[string]func(*message){
		"body": func(m *message) { m.body = append(bytes.Clone(m.body), ' ') },
		"id":   func(m *message) { m.header.Set("Webhook-Id", "another") },
		"time": func(m *message) { m.header.Set("Webhook-Timestamp", "1") },
	} {
		changed := message{got.header.Clone(), got.body}
		change(&changed)
		if verify(secretOf(24), changed) == nil {
			t.Errorf("verified with another %s", name)
		}
	}
}

// Somebody recorded a message and sends it again later: the time is part of what was signed, so it can neither be kept, for receivers take
// no old ones, nor set anew.
func TestReplayedMessage(t *testing.T) {
	t.Attr("proves", "A60")
	t.Parallel()
	secret, err := ParseSecret(secretOf(32))
	if err != nil {
		t.Fatal(err)
	}
	hook, err := standardwebhooks.NewWebhook(secretOf(32))
	if err != nil {
		t.Fatal(err)
	}
	body, header := []byte(`{"type":"job.completed"}`), http.Header{}
	for age, taken := range map[time.Duration]bool{0: true, 4 * time.Minute: true, 6 * time.Minute: false, 24 * time.Hour: false, -6 * time.Minute: false} {
		sign(header, [][]byte{secret}, "the-job_1", time.Now().Add(-age), body)
		if err := hook.Verify(body, header); (err == nil) != taken {
			t.Errorf("%v old: %v", age, err)
		}
	}
	sign(header, [][]byte{secret}, "the-job_1", time.Now().Add(-time.Hour), body)
	header.Set("Webhook-Timestamp", strconv.FormatInt(time.Now().Unix(), 10))
	if hook.Verify(body, header) == nil {
		t.Error("an old signature under a new time was taken")
	}
}

// The specification's own example.
func TestSign(t *testing.T) {
	secret, err := ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	got := Sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("signature = %s, want %s", got, want)
	}
}

func TestParseSecrets(t *testing.T) {
	for _, wrong := range []string{
		"whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS", "whsec_!fKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		"WHSEC_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		secretOf(23), secretOf(65), secretOf(24) + ",", secretOf(24) + " secret",
	} {
		if _, err := ParseSecrets(wrong); err == nil || strings.Contains(err.Error(), "fKQ9") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	if none, err := ParseSecrets(" "); err != nil || none != nil {
		t.Errorf("none: %v, %v", none, err)
	}
}

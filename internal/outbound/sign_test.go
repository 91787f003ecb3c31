package outbound

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

func secretText(n int) string {
	return "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{byte(n)}, n))
}

// Another implementation verifies the messages that the client sends, also while the secret is being replaced.
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
	secrets, err := ParseSecrets(secretText(24) + " " + secretText(64))
	if err != nil {
		t.Fatal(err)
	}
	c := client(t, Options{Allow: loopback, Signer: Signer{Shared: secrets}})
	if _, err := c.Do(t.Context(),
		Request{Method: "POST", URL: r.URL, Body: []byte(`{"ä": "<\n>"}`), MessageID: "the-job"}); err != nil {
		t.Fatal(err)
	}
	verify := func(secret string, m message) error {
		hook, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		return hook.Verify(m.body, m.header)
	}
	for _, secret := range []string{secretText(24), secretText(64)} {
		if err := verify(secret, got); err != nil {
			t.Errorf("not verified: %v", err)
		}
	}
	if verify(secretText(32), got) == nil {
		t.Error("verified with another secret")
	}
	for name, change := range map[string]func(*message){
		"body": func(m *message) { m.body = append(bytes.Clone(m.body), ' ') },
		"id":   func(m *message) { m.header.Set("Webhook-Id", "another") },
		"time": func(m *message) { m.header.Set("Webhook-Timestamp", "1") },
	} {
		changed := message{got.header.Clone(), got.body}
		change(&changed)
		if verify(secretText(24), changed) == nil {
			t.Errorf("verified with another %s", name)
		}
	}
}

// A recorded message cannot be sent again later. Its time is signed: receivers refuse the old time, and no
// attacker can sign a new one.
func TestReplayedMessage(t *testing.T) {
	t.Attr("proves", "A60")
	t.Parallel()
	secret, err := ParseSecret(secretText(32))
	if err != nil {
		t.Fatal(err)
	}
	hook, err := standardwebhooks.NewWebhook(secretText(32))
	if err != nil {
		t.Fatal(err)
	}
	signer := Signer{Shared: [][]byte{secret}}
	body, header := []byte(`{"type":"job.completed"}`), http.Header{}
	for age, taken := range map[time.Duration]bool{0: true, 4 * time.Minute: true, 6 * time.Minute: false,
		24 * time.Hour: false, -6 * time.Minute: false} {
		signer.sign(header, "", "the-job_1", time.Now().Add(-age), body)
		if err := hook.Verify(body, header); (err == nil) != taken {
			t.Errorf("%v old: %v", age, err)
		}
	}
	signer.sign(header, "", "the-job_1", time.Now().Add(-time.Hour), body)
	header.Set("Webhook-Timestamp", strconv.FormatInt(time.Now().Unix(), 10))
	if hook.Verify(body, header) == nil {
		t.Error("an old signature under a new time was taken")
	}
}

// Sign gives the signature of the specification's own example.
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
		"whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS",
		"whsec_!fKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		"WHSEC_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		secretText(23), secretText(65), secretText(24) + ",", secretText(24) + " secret",
	} {
		if _, err := ParseSecrets(wrong); err == nil || strings.Contains(err.Error(), "fKQ9") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	if none, err := ParseSecrets(" "); err != nil || none != nil {
		t.Errorf("none: %v, %v", none, err)
	}
}

// The messages of an owner verify with the keys of that owner only, for each of the masters. The shared secret
// signs them too, for receivers of earlier versions, but it signs no message that may be a stranger's.
func TestSigner(t *testing.T) {
	t.Attr("proves", "A60")
	t.Parallel()
	masters, err := ParseMasters(masterText(1) + " " + masterText(2))
	if err != nil {
		t.Fatal(err)
	}
	shared, err := ParseSecret(secretText(32))
	if err != nil {
		t.Fatal(err)
	}
	body, now := []byte(`{"a":1}`), time.Now()
	verifies := func(h http.Header, secret string) bool {
		hook, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		return hook.Verify(body, h) == nil
	}
	public := func(h http.Header, text string) (n int) {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, "whpk_"))
		if err != nil || len(key) != ed25519.PublicKeySize {
			t.Fatal(text, err)
		}
		for _, one := range strings.Fields(h.Get("Webhook-Signature")) {
			version, signature, _ := strings.Cut(one, ",")
			raw, err := base64.StdEncoding.DecodeString(signature)
			if version == "v1a" && err == nil && ed25519.Verify(key,
				[]byte("m."+h.Get("Webhook-Timestamp")+"."+string(body)), raw) {
				n++
			}
		}
		return n
	}
	newer, older := Signer{Masters: masters[:1]}, Signer{Masters: masters[1:]}
	both := Signer{Masters: masters, Shared: [][]byte{shared}, Strangers: true}
	for _, owner := range []string{"", "aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb"} {
		h := http.Header{"Webhook-Signature": {"v1,forged"}}
		both.sign(h, owner, "m", now, body)
		for _, other := range []string{"", "aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb"} {
			for _, s := range []Signer{newer, older, both} {
				secret, key := s.Keys(other)
				if own := other == owner; verifies(h, secret) != own || public(h, key) == 1 != own {
					t.Errorf("a message of %q with the keys of %q: %v, %d", owner, other, verifies(h, secret), public(h,
						key))
				}
			}
		}
		if verifies(h, secretText(32)) != (owner != "") {
			t.Errorf("a message of %q and the shared secret: %v", owner, !(owner != ""))
		}
		if n := len(strings.Fields(h.Get("Webhook-Signature"))); n != 4+min(len(owner), 1) {
			t.Errorf("%d signatures: %v", n, h)
		}
	}
	one, _ := both.Keys("aaaaaaaaaaaaaaaa")
	if again, _ := newer.Keys("aaaaaaaaaaaaaaaa"); one != again {
		t.Error("the keys that are shown are not the first master's")
	}
	h := http.Header{}
	(&Signer{Shared: [][]byte{shared}}).sign(h, "", "m", now, body)
	if !verifies(h, secretText(32)) || strings.Contains(h.Get("Webhook-Signature"), " ") {
		t.Errorf("an open server without a master: %v", h)
	}
	(&Signer{}).sign(h, "", "m", now, body)
	if secret, key := (&Signer{}).Keys(""); h.Get("Webhook-Signature") != "" || secret != "" || key != "" {
		t.Errorf("without anything: %v, %q, %q", h, secret, key)
	}
}

func masterText(n int) string {
	return "whmaster_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{byte(n)}, 32))
}

func TestParseMasters(t *testing.T) {
	for _, wrong := range []string{
		"whmaster_", secretText(32), "whmaster_" + strings.TrimPrefix(secretText(31), "whsec_"),
		"whmaster_" + strings.TrimPrefix(secretText(65), "whsec_"),
		masterText(1) + ",", masterText(1) + " fKQ9",
	} {
		if _, err := ParseMasters(wrong); err == nil || strings.Contains(err.Error(), "fKQ9") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	if none, err := ParseMasters(" "); err != nil || none != nil {
		t.Errorf("none: %v, %v", none, err)
	}
}

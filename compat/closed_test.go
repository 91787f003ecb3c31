package compat

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	faktory "github.com/contribsys/faktory/client"

	"github.com/tierq/tierq/internal/testkit"
)

// On a server with keys a client connects over TLS with the password of a key, and may do what the key may.
func TestClosedServer(t *testing.T) {
	t.Parallel()
	ca := testkit.NewAuthority(t)
	cert, key := ca.Sign(t, t.TempDir(), time.Now().Add(time.Hour), "127.0.0.1")
	generated, err := exec.CommandContext(t.Context(), binary(t), "keys", "generate").Output()
	if err != nil {
		t.Fatal(err)
	}
	admin := strings.TrimSpace(string(generated))
	s := starts(t, "TIERQ_FAKTORY_TLS_CERT="+cert, "TIERQ_FAKTORY_TLS_KEY="+key, "TIERQ_ADMIN_KEY="+admin)
	asks := func(path, body string, into any) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+admin)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode >= 300 || json.Unmarshal(text, into) != nil {
			t.Fatalf("%s: %s %s %v", path, answer.Status, text, err)
		}
	}
	var made struct{ ID string }
	asks("/admin/keys", `{"name":"films","role":"worker","queues":["default"],"submits":true}`, &made)
	var gate struct {
		URL string `json:"faktoryUrl"`
	}
	asks("/admin/keys/"+made.ID+"/gateway", "", &gate)
	at, err := url.Parse(gate.URL)
	if err != nil || at.Scheme != "tcp+tls" || "tcp+tls://"+at.Host != s.url {
		t.Fatalf("%s: %v, not at %s", gate.URL, err, s.url)
	}
	password, _ := at.User.Password()
	connect := func(password string) (*faktory.Client, error) {
		server := &faktory.Server{
			Network: "tcp+tls", Address: strings.TrimPrefix(s.url, "tcp+tls://"), Username: at.User.Username(),
			Password: password, Timeout: 5 * time.Second, TLS: &tls.Config{RootCAs: ca.Pool()},
		}
		return server.Open()
	}
	if _, err := connect(password + "x"); err == nil || !strings.Contains(err.Error(), "Invalid password") {
		t.Errorf("with a wrong password: %v", err)
	}
	c, err := connect(password)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	sent := faktory.NewJob("RESIZE", 1)
	if err := c.Push(sent); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Fetch("default"); err != nil || got == nil || got.Jid != sent.Jid {
		t.Fatalf("fetched %+v, %v", got, err)
	}
	if err := c.Ack(sent.Jid); err != nil {
		t.Error(err)
	}
	elsewhere := faktory.NewJob("RESIZE", 1)
	elsewhere.Queue = "other"
	if err := c.Push(elsewhere); err == nil {
		t.Error("the key of one queue pushed to another one")
	}
	if _, err := c.Fetch("other"); err == nil || !strings.Contains(err.Error(), "not allowed") {
		t.Errorf("the key of one queue fetched from another one: %v", err)
	}
	if err := c.Flush(); err == nil || !strings.Contains(err.Error(), "not allowed") {
		t.Errorf("a worker's key may FLUSH: %v", err)
	}
}

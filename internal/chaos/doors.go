package chaos

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/chaos/client"
)

// The servers are closed to callers without an API key: an operator has the key of a file, and the clients have
// two keys of the database.

// quotas are how many jobs each client's key may have in flight. The first key reaches its quota now and then, the
// second hardly ever.
var quotas = []int{60, 1000}

// mintAdmin makes the operator's key and the file from which the servers read it.
func (c *cluster) mintAdmin() error {
	var id [10]byte
	var secret [32]byte
	_, _ = rand.Read(id[:]) // crypto/rand promises that Read never fails
	_, _ = rand.Read(secret[:])
	c.admin = "tq_" + strings.ToLower(base32.StdEncoding.EncodeToString(id[:])) + "_" +
		base64.RawURLEncoding.EncodeToString(secret[:])
	if err := os.WriteFile(c.adminFile(), []byte(c.admin+"\n"), 0o600); err != nil {
		return fmt.Errorf("keep the admin key: %w", err)
	}
	return nil
}

func (c *cluster) adminFile() string { return filepath.Join(c.dir, "admin-key") }

// makeKeys makes the clients' keys and waits until every server accepts them.
func (c *cluster) makeKeys(ctx context.Context) error {
	for n := range quotas {
		quota := quotas[n]
		if c.Clean {
			quota = 0 // no quota: a clean run must have no refusal
		}
		var made struct{ ID, Key string }
		body := fmt.Sprintf(`{"name":"chaos %d","role":"submit","inFlight":%d}`, n, quota)
		if status, err := c.ask(ctx, c.servers[0].base(), http.MethodPost, "/admin/keys", c.admin, body, &made); err != nil ||
			status != http.StatusCreated {
			return fmt.Errorf("make a key: %d %w", status, err)
		}
		c.keys = append(c.keys, client.Key{ID: made.ID, Text: made.Key})
	}
	for n := range 2 {
		var made struct{ ID, Key string }
		body := fmt.Sprintf(`{"name":"chaos worker %d","role":"worker"}`, n)
		if status, err := c.ask(ctx, c.servers[0].base(), http.MethodPost, "/admin/keys", c.admin, body, &made); err != nil ||
			status != http.StatusCreated {
			return fmt.Errorf("make a worker's key: %d %w", status, err)
		}
		c.workerKeys = append(c.workerKeys, client.Key{ID: made.ID, Text: made.Key})
	}
	if err := errors.Join(c.readPasswords(ctx), c.makeScheduleKey(ctx)); err != nil {
		return err
	}
	return c.each(func(s *server) error {
		for _, k := range append(slices.Concat(c.keys, c.workerKeys), c.scheduleKey) {
			status := 0
			for end := time.Now().Add(20 * time.Second); status != http.StatusOK; {
				if time.Now().After(end) || !hold(ctx, 50*time.Millisecond) {
					return fmt.Errorf("server %d answers %d to the key %s", s.n, status, k.ID)
				}
				status, _ = c.ask(ctx, s.base(), http.MethodGet, "/api/me", k.Text, "", nil) // asked again
			}
		}
		return nil
	})
}

// ask sends one request with a key. It decodes the body of an answer below 300 into the value into, unless that is
// nil.
func (c *cluster) ask(ctx context.Context, base, method, path, key, body string, into any) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader(body))
	if err != nil {
		return 0, fmt.Errorf("%s %s: %w", method, path, err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := hurried.Do(req)
	if err != nil {
		return 0, fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && into != nil && resp.StatusCode < 300 {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return 0, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return resp.StatusCode, nil
}

// listen opens the port where callbacks arrive; serve answers them.
func (c *cluster) listen(ctx context.Context) (err error) {
	var lc net.ListenConfig
	if c.callbacks, err = lc.Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return fmt.Errorf("listen for callbacks: %w", err)
	}
	c.receiver = &http.Server{ReadHeaderTimeout: 5 * time.Second}
	return nil
}

func (c *cluster) serve(h http.Handler) {
	c.receiver.Handler = h
	c.serving.Go(func() { _ = c.receiver.Serve(c.callbacks) }) // until the listener is closed
}

func (c *cluster) stopListening() {
	if c.receiver == nil {
		return
	}
	_ = c.callbacks.Close() // serve may not have been called
	_ = c.receiver.Close()
	c.serving.Wait()
}

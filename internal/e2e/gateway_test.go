package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// gatewayPassword returns the gateway password of a key, as the key itself is shown it.
func (s *server) gatewayPassword(key string) string {
	s.t.Helper()
	var shown struct{ Password, FaktoryURL string }
	a := s.asks(key, http.MethodPost, "/api/me/gateway", "")
	if err := json.Unmarshal(a.body, &shown); err != nil || len(shown.Password) != 43 ||
		!strings.Contains(shown.FaktoryURL, ":"+shown.Password+"@127.0.0.1:") {
		s.t.Fatalf("%v: %d %s", err, a.status, a.body)
	}
	return shown.Password
}

// An embedded server makes a secret for gateways, which no other user of the machine can read. A restart finds it: the
// key of the settings and a key of the store have the same passwords as before.
func TestGatewayPasswordsOfAnEmbeddedServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := guarded(t, "TIERQ_DATA_DIR="+dir)
	key := s.makeKey(theAdmin, http.MethodPost, "/admin/keys", submitKey).Key
	first, boss := s.gatewayPassword(key), s.gatewayPassword(theAdmin)
	if first == boss {
		t.Error("two keys have one password")
	}
	info, err := os.Stat(filepath.Join(dir, "gateway-secret"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	s.terminate(20 * time.Second)
	s = guarded(t, "TIERQ_DATA_DIR="+dir)
	if again, bossAgain := s.gatewayPassword(key), s.gatewayPassword(theAdmin); again != first || bossAgain != boss {
		t.Errorf("before the restart %q and %q, then %q and %q", first, boss, again, bossAgain)
	}
}

// Processes with one TIERQ_GATEWAY_SECRET show the same passwords. A process without it shows none, and names the
// setting.
func TestGatewayPasswordsOfSeveralProcesses(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	env := []string{"TIERQ_ADMIN_KEY=" + theAdmin}
	secret := append(env, "TIERQ_GATEWAY_SECRET="+strings.Repeat("s", 32))
	a, b, without := c.start(secret...), c.start(secret...), c.start(env...)
	if one, other := a.gatewayPassword(theAdmin), b.gatewayPassword(theAdmin); one != other {
		t.Errorf("%q and %q", one, other)
	}
	wants(t, without.asks(theAdmin, http.MethodPost, "/api/me/gateway", ""), http.StatusConflict,
		"INVALID_STATE_TRANSITION")
}

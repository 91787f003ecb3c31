package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// A load of jobs with callbacks fills Redis within seconds, so that nothing in Redis is old when it is full. Half a
// minute after the load has ended submits are accepted again.
func TestFullRedisOpensAgain(t *testing.T) {
	t.Attr("proves", "F22")
	t.Parallel()
	const batch, hold = 100, 3 << 19 // bytes
	const goesOn, bound, slack, calm = 5 * time.Second, 30 * time.Second, 5 * time.Second, 3 * time.Second
	c := newCluster(t)
	r := newReceiver(t, nil)
	s := c.start(append(outward, "TIERQ_WORKERS=64")...)
	entries := make([]string, batch)
	for i := range entries { // an ended job takes 1 KiB and more: its result has a key
		entries[i] = fmt.Sprintf(`{"type":"CHAOS","payload":{"key":"%0700d","file":%q},"callbackUrl":%q}`, i,
			t.TempDir()+"/runs", r.URL)
	}
	body := "[" + strings.Join(entries, ",") + "]"
	load := func() answer { return do(t, http.MethodPost, s.base+"/paid/submit/batch", body) }
	load() // opens the server's connections, which use memory too
	testkit.Eventually(t, 20*time.Second, "the first callbacks are sent", func() (bool, string) {
		n := len(r.heard())
		return n >= batch, fmt.Sprint(n)
	})
	c.limitMemory(c.usedMemory() + hold)
	// The load goes on for a while after the first refusal.
	refused := func() bool { return s.ask("paid", entries[0]).status != http.StatusAccepted }
	testkit.Eventually(t, 30*time.Second, "Redis is full", func() (bool, string) {
		a := load()
		return refused(), fmt.Sprintf("%d %.300s; Redis uses %d", a.status, a.body, c.usedMemory())
	})
	for full := time.Now(); time.Since(full) < goesOn; {
		load()
	}
	ended := time.Now()
	last := ended
	testkit.Eventually(t, bound+slack+calm, "submits are accepted again", func() (bool, string) {
		if refused() {
			last = time.Now()
		}
		return time.Since(last) > calm, fmt.Sprintf("refused %s ago; Redis uses %d", time.Since(last), c.usedMemory())
	})
	t.Logf("evidence: the last submit was refused %s after the load", last.Sub(ended).Round(time.Millisecond))
	if over := last.Sub(ended); over > bound+slack {
		t.Errorf("a submit was refused %s after the load", over)
	}
	testkit.Eventually(t, 10*time.Second, "all callbacks are sent, and in SQL", func() (bool, string) {
		var owed int64
		err := c.db.QueryRow("SELECT COUNT(*) FROM accepted_jobs").Scan(&owed)
		left := c.outbox()
		return owed+left == 0 && err == nil, fmt.Sprintf("%d in the outbox, %d owed, %v", left, owed, err)
	})
}

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// The dashboard shows a dead letter of another process. It listens only to the channel of alarms, so that the
// scripts need not publish every move.
func TestDashboard_HearsAlarmsOnly(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	api := c.start("TIERQ_ROLES=api")
	c.start("TIERQ_ROLES=worker,recovery")
	api.tune("PAID", map[string]any{"maxRetries": 0})
	feed, done := make(chan string, 1), make(chan error, 1)
	go func() {
		done <- stream(t, api.base+"/dashboard/stream", "", func(e event) bool {
			if e.name == "feed" {
				feed <- e.data
				return false
			}
			return true
		})
	}()
	const alarms, events = "{tierq:0}:alarms", "{tierq:0}:events"
	testkit.Eventually(t, 10*time.Second, "the alarms are listened to", func() (bool, string) {
		n, err := c.rdb.Exists(t.Context(), alarms).Result()
		return n == 1, fmt.Sprint(n, err)
	})
	id := api.submit("paid", `{"payload":{"steps":[{"type":"FAIL","message":"no"}]}}`)
	select {
	case err := <-done:
		if err != nil || len(feed) == 0 {
			t.Fatal(errors.Join(errors.New("the stream ended and told of no death"), err))
		}
		if text := <-feed; !strings.Contains(text, id) || !strings.Contains(text, `"dead"`) {
			t.Errorf("the feed has %s, want the death of %s", text, id)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the feed does not tell of a death")
	}
	if n, err := c.rdb.Exists(t.Context(), events).Result(); n != 0 || err != nil {
		t.Errorf("%s is there: the scripts tell all that moves (%v)", events, err)
	}
	if n := c.rdb.PubSubNumSub(t.Context(), events).Val()[events]; n != 0 {
		t.Errorf("%d listen to all that moves", n)
	}
}

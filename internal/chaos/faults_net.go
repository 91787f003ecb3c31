package chaos

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/testkit"
	"github.com/tierq/tierq/lua"
)

// The faults of this file are faults of the network between one server and its stores.

// scripts are the scripts whose replies a fault can lose.
var scripts = []string{
	"submit", "claim", "heartbeat", "complete", "fail", "reclaim", "promote", "cancel", "restore",
	"take_outbox", "acknowledge",
}

// script returns the text that the servers send to Redis for a script's name.
func (c *cluster) script(name string) string {
	if changed := c.scripts[name]; changed != "" {
		return lua.Prelude + strings.TrimSuffix(lua.Own(name), lua.Source(name)) + changed
	}
	return lua.Script(name)
}

// dropReply drops the next reply of a script. It waits for that, for at most within, and returns the dropped line and
// whether the script was executed.
func (w *wound) dropReply(ctx context.Context, name string, within time.Duration) (line string, landed bool) {
	before := len(w.s.redis.Dropped())
	w.s.redis.DropReply(testkit.IsScript(w.script(name)))
	defer w.s.redis.Disarm()
	return w.awaitDrop(ctx, before, within)
}

func (w *wound) awaitDrop(ctx context.Context, before int, within time.Duration) (line string, landed bool) {
	for end := time.Now().Add(within); time.Now().Before(end) && hold(ctx, 5*time.Millisecond); {
		if drops := w.s.redis.Dropped()[before:]; len(drops) > 0 {
			return drops[0].Line(), drops[0].Executed
		}
	}
	return "", false
}

// lostReplies returns a fault that loses replies of an executed script, one to three times in a row.
func lostReplies(name string) func(context.Context, *wound) (string, error) {
	return func(ctx context.Context, w *wound) (string, error) {
		lost, last := 0, ""
		for range 1 + w.rng.IntN(3) {
			line, landed := w.dropReply(ctx, name, 5*time.Second)
			if !landed {
				break
			}
			lost, last = lost+1, line
		}
		if lost == 0 {
			return "nobody called it", errMissed
		}
		return fmt.Sprintf("%d executed and not answered, the last reply was %s", lost, last), nil
	}
}

// halvedReply is a fault: the connection breaks in the middle of a claim's reply.
func halvedReply(ctx context.Context, w *wound) (string, error) {
	before := len(w.s.redis.Dropped())
	w.s.redis.HalveReply(testkit.IsScript(w.script("claim")))
	defer w.s.redis.Disarm()
	line, landed := w.awaitDrop(ctx, before, 5*time.Second)
	if !landed {
		return "nobody claimed", errMissed
	}
	return "half of a claim's reply came, it began " + line, nil
}

// late is a fault: for 4 s, every reply of Redis to this server is delayed.
func late(ctx context.Context, w *wound) (string, error) {
	before, by := w.s.redis.Suffered(), w.between(200*time.Millisecond, 1500*time.Millisecond)
	w.s.redis.Delay(by)
	hold(ctx, 4*time.Second)
	w.s.redis.Delay(0)
	return counted(w.s.redis.Suffered()-before, fmt.Sprintf("replies came %s late", by.Round(time.Millisecond)))
}

// swallowed is a fault: everything between this server and Redis is lost, and no connection is closed.
func swallowed(ctx context.Context, w *wound) (string, error) {
	before := w.s.redis.Suffered()
	w.s.redis.Blackhole(true)
	hold(ctx, w.between(2*time.Second, 8*time.Second))
	w.s.redis.Blackhole(false)
	w.s.redis.Cut() // these connections would wait for the lost bytes for ever
	return counted(w.s.redis.Suffered()-before, "requests and replies swallowed")
}

// lostCommit is a fault: SQL executes a COMMIT and its answer is lost.
func lostCommit(ctx context.Context, w *wound) (string, error) {
	before := w.s.sql.Cuts()
	w.s.sql.DropReply("\x03COMMIT") // with the command byte, because READ COMMITTED occurs in another statement
	for range 500 {
		if w.s.sql.Cuts() > before || !hold(ctx, 10*time.Millisecond) {
			break
		}
	}
	if w.s.sql.Cuts() == before {
		w.s.sql.Disarm()
		return "nobody committed", errMissed
	}
	return "a COMMIT was executed and not answered", nil
}

// cutStatement is a fault: a connection to SQL breaks in the middle of a statement.
func cutStatement(ctx context.Context, w *wound) (string, error) {
	before := w.s.sql.Cuts()
	w.s.sql.CutAfter(1 + w.rng.IntN(4000))
	for range 500 {
		if w.s.sql.Cuts() > before || !hold(ctx, 10*time.Millisecond) {
			break
		}
	}
	if w.s.sql.Cuts() == before {
		w.s.sql.Disarm()
		return "not enough was sent", errMissed
	}
	return "a connection was cut in the middle of what it carried", nil
}

// counted returns evidence with a number. A number below 1 is errMissed.
func counted(n int, what string) (string, error) {
	if n <= 0 {
		return "no " + what, errMissed
	}
	return fmt.Sprintf("%d %s", n, what), nil
}

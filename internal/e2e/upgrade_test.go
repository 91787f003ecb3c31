package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/queue/queuetest"
	"github.com/tierq/tierq/internal/testkit"
)

// newMark is what the next version's submit adds to a head, and claimMark what its claim adds to a token.
const newMark, claimMark = `{"madeby":"new"}`, "+new"

// nextVersion builds this tree with changed scripts: submit writes one more option, which this version does not know,
// and claim writes longer tokens.
func nextVersion(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for script, edit := range map[string][2]string{
		"submit.lua": {
			`text(bytes) .. ' ' .. descriptor`,
			`text(bytes) .. ' ' .. descriptor .. (string.find(descriptor, '{', 1, true) and '' or ' ` + newMark + `')`,
		},
		"claim.lua": {`nonce .. ':'`, `nonce .. '` + claimMark + `:'`},
	} {
		from := filepath.Join(root, "lua", script)
		text, err := os.ReadFile(from)
		if err != nil || !strings.Contains(string(text), edit[0]) {
			t.Fatalf("%s has no %q: %v", script, edit[0], err)
		}
		to := filepath.Join(dir, script)
		if err := os.WriteFile(to, []byte(strings.ReplaceAll(string(text), edit[0], edit[1])), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[from] = to
	}
	list, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	file, bin := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "tierq-next")
	if err := os.WriteFile(file, list, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := testkit.BuildChanged(t.Context(), bin, file, "failpoint"); err != nil {
		t.Fatalf("the next version: %v", err)
	}
	return bin
}

// Under load a server of a next version joins, an old one leaves, and then the new one is replaced by the old
// version. Both versions serve at the same time, each claims the other's jobs, and no client gets an error. If this
// test's own writes to Redis took long, the machine was too busy: then the whole is done once more, three times in all.
func TestRollingUpgrade(t *testing.T) {
	t.Attr("proves", "F60")
	t.Parallel()
	next := nextVersion(t)
	for tries := 1; ; tries++ {
		refused, unknown, slowest := roll(t, next)
		if t.Failed() || refused+unknown == 0 {
			return
		}
		said := fmt.Sprintf("%d refused, %d unknown; a write to Redis took %s at most", refused, unknown, slowest)
		if tries == 3 || slowest < 500*time.Millisecond {
			t.Error(said)
			return
		}
		t.Log(said + ": once more")
	}
}

// roll returns how many submits were refused, of how many the fate is not known, and how long a write of this process
// to the same Redis took at most.
func roll(t *testing.T, next string) (refused, unknown int, slowest time.Duration) {
	t.Helper()
	c := newCluster(t)
	old := c.bin
	over := make(chan struct{})
	var control sync.WaitGroup
	control.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-t.Context().Done():
				return
			case <-time.After(25 * time.Millisecond):
			}
			began := time.Now()
			_ = c.rdb.Set(t.Context(), "control", "", time.Minute).Err() // an error took its time too
			slowest = max(slowest, time.Since(began))
		}
	})
	first, second := c.start("TIERQ_WORKERS=2"), c.start("TIERQ_WORKERS=2")
	l := c.underLoad(second, 2, 0)
	l.fenced = true
	leave := func(s *server, h *hammer, stop chan struct{}) { // as behind a balancer: no new requests, then the signal
		close(stop)
		h.group.Wait()
		h.check(t)
		if code, _ := s.terminate(20 * time.Second); code != 0 {
			t.Errorf("exit %d", code)
		}
		l.h.mu.Lock()
		defer l.h.mu.Unlock()
		l.h.yes, l.h.refused, l.h.unknown = append(l.h.yes, h.yes...), l.h.refused+h.refused,
			append(l.h.unknown, h.unknown...)
	}
	var onFirst, onThird hammer
	stopFirst, stopThird := make(chan struct{}), make(chan struct{})
	onFirst.run(first, stopFirst, 2, "unpaid", counting(l.file, 5))
	onFirst.accepts(t, 30)

	c.bin = next
	third := c.start("TIERQ_WORKERS=2")
	onThird.run(third, stopThird, 2, "unpaid", counting(l.file, 5))
	onFirst.accepts(t, 80) // both versions at the same time
	onThird.accepts(t, 80)
	leave(first, &onFirst, stopFirst)
	l.s = third
	c.bin = old // an operator goes back to the old version
	fourth := c.start("TIERQ_WORKERS=2")
	onThird.accepts(t, 60)
	leave(third, &onThird, stopThird)
	l.s = fourth
	close(over)
	control.Wait()
	l.end()
	mixed := map[string]int{}
	s, err := queuetest.Read(t.Context(), c.rdb, 0)
	if err != nil {
		t.Fatal(err)
	}
	version := map[bool]string{false: "old", true: "new"}
	for _, id := range l.h.yes {
		f := s.Jobs[id]
		mixed[version[strings.Contains(f["token"], claimMark)]+" after "+version[f["options"] == newMark]]++
	}
	t.Logf("evidence: who claimed after whom accepted: %v", mixed)
	for _, pair := range []string{"old after old", "old after new", "new after old", "new after new"} {
		if mixed[pair] == 0 {
			t.Errorf("no job was %s", pair)
		}
	}
	return l.h.refused, len(l.h.unknown), slowest
}

//go:build long

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// The place where the standard library's time.Now reads the wall clock, and its replacement in the build for this
// test.
const (
	readsClock = "sec, nsec, mono := runtimeNow()\n"
	skewsClock = `
// skewed is by how many seconds the wall clock of this process is off.
var skewed = func() (n int64) {
	s, _ := syscall.Getenv("CLOCK_SKEW")
	for _, c := range []byte(s) {
		if c >= '0' && c <= '9' {
			n = n*10 + int64(c-'0')
		}
	}
	if s != "" && s[0] == '-' {
		n = -n
	}
	return n
}()
`
)

// skewedTierq builds a tierq whose wall clock is off by CLOCK_SKEW seconds, while its monotonic clock is right, as
// on a host with a wrong clock. Tools that fake the time of a process do not work for Go programs, so the build
// uses a changed standard library. It compiles everything anew, which takes minutes the first time.
func skewedTierq(t *testing.T) string {
	t.Helper()
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	original := filepath.Join(strings.TrimSpace(string(goroot)), "src", "time", "time.go")
	text, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	now := "func Now() Time {\n\t" + readsClock
	imports := "import (\n"
	if strings.Count(string(text), now) != 1 || strings.Count(string(text), imports) != 1 {
		t.Fatalf("%s is not as this test knows it", original)
	}
	changed := strings.Replace(string(text), now, now+"\tsec += skewed\n", 1)
	changed = strings.Replace(changed, imports, imports+"\t\"syscall\"\n", 1) + skewsClock
	dir := t.TempDir()
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: filepath.Join(dir, "time.go")}})
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{"time.go": changed, "overlay.json": string(overlay)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bin := filepath.Join(dir, "tierq")
	if err := testkit.BuildChanged(t.Context(), bin, filepath.Join(dir, "overlay.json"), "failpoint"); err != nil {
		t.Fatal(err)
	}
	return bin
}

// Three processes, whose clocks are a minute behind, right, and a minute ahead, serve one queue without any error.
func TestClocksApart(t *testing.T) {
	t.Attr("proves", "F35")
	t.Parallel()
	bin := skewedTierq(t)
	c := newCluster(t)
	c.bin = bin
	file := filepath.Join(t.TempDir(), "runs")
	var servers []*server
	for _, skew := range []int{-60, 0, 60} {
		s := c.start(fmt.Sprint("CLOCK_SKEW=", skew), "TIERQ_WORKERS=4")
		for tier := range crashes {
			s.tune(strings.ToUpper(tier), swiftly(tier))
		}
		servers = append(servers, s)
		said := get[struct{ Timestamp time.Time }](t, s.base+"/readyz").Timestamp
		off := time.Until(said)
		t.Logf("evidence: pid %d says it is %s, %s off", s.Pid(), said, off.Round(time.Millisecond))
		if want := time.Duration(skew) * time.Second; off < want-2*time.Second || off > want+2*time.Second {
			t.Fatalf("its clock is %v off, want %v", off, want)
		}
	}
	tiers, crashed, ids := map[string]string{}, map[string]bool{}, []string{}
	add := func(s *server, tier, body string) string {
		id := s.submit(tier, body)
		tiers[id] = tier
		ids = append(ids, id)
		return id
	}
	var soon []string
	submitted := time.Now()
	for _, s := range servers {
		for range 2 {
			add(s, "public", counting(file, 4000)) // eight heartbeat timeouts
		}
		for _, when := range []string{`"delaySeconds":2`,
			`"runAt":"` + submitted.Add(2*time.Second).UTC().Format(time.RFC3339Nano) + `"`} {
			soon = append(soon, add(s, "paid", strings.Replace(counting(file, 0), "{", "{"+when+",", 1)))
		}
	}
	for i, id := range soon {
		p := servers[i%3].poll(id)
		if off := p.ArrivedAt.Sub(submitted).Abs(); p.Status != "SCHEDULED" || off > 5*time.Second {
			t.Errorf("%s is %s, arrived %v from now", id, p.Status, off)
		}
	}
	for _, id := range soon {
		servers[1].await(id, "COMPLETED", time.Until(submitted.Add(2*time.Second))+3*time.Second)
	}
	if early := time.Since(submitted); early < 1900*time.Millisecond {
		t.Errorf("all were done after %v", early)
	}
	spent := c.spent()
	for _, id := range ids {
		if spent[id] != 0 {
			t.Errorf("%s lost %d retries to nothing", id, spent[id])
		}
	}
	for range 6 {
		add(servers[1], "paid", counting(file, 2000))
	}
	testkit.Eventually(t, 10*time.Second, "all are running", func() (bool, string) {
		order, _ := executions(t, file)
		return len(order) == len(ids), fmt.Sprint(len(order), " of ", len(ids))
	})
	if err := servers[2].Kill(); err != nil {
		t.Fatal(err)
	}
	crashed[fmt.Sprint(servers[2].Pid())] = true
	c.explained(file, tiers, crashed, c.settled(detected+15*time.Second, ids...))
}

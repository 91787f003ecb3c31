package e2e

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

var updateSession = flag.Bool("update", false, "write the session of docs/CLI.md from what the commands print")

// The page with the session, and the line that opens it there.
const (
	sessionFile  = "../../docs/CLI.md"
	sessionFence = "```console\n"
)

// The terminal session in the docs is run in a shell, against a real server, and prints the text in the docs.
func TestSession(t *testing.T) {
	t.Parallel()
	var mended atomic.Bool
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !mended.Swap(true) { // only the first call finds it broken
			w.WriteHeader(http.StatusGone)
			return
		}
		fmt.Fprint(w, `{"taken":true}`)
	}))
	t.Cleanup(receiver.Close)
	bin := testkit.BuildTierq(t)
	s := startServer(t, bin, "TIERQ_ADDR=127.0.0.1:0", "TIERQ_DATA_DIR="+t.TempDir(), "TIERQ_EGRESS_ALLOW=127.0.0.0/8")
	address := strings.TrimPrefix(receiver.URL, "http://")

	page, err := os.ReadFile(sessionFile)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(page), sessionFence)
	block, tail, _ := strings.Cut(rest, "```\n")
	var commands []string
	for line := range strings.Lines(block) {
		if c, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "$ "); ok {
			commands = append(commands, c)
		}
	}
	if len(commands) < 10 {
		t.Fatalf("%d commands on the page", len(commands))
	}
	got := strings.ReplaceAll(typed(t, bin, s.base, commands, address), address, "127.0.0.1:9000")
	if *updateSession {
		if err := os.WriteFile(sessionFile, []byte(head+sessionFence+got+"```\n"+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want, got := timeless(block), timeless(got); want != got {
		t.Errorf("the session is not the page's. The page:\n%s\nThe shell:\n%s\n(go test ./internal/e2e -run TestSession -update)", want, got)
	}
}

// typed runs the commands in one shell, one after the other, and returns the terminal's text.
func typed(t *testing.T, bin, server string, commands []string, address string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink(bin, filepath.Join(dir, "tierq")); err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	for i, c := range commands {
		if c == "tierq dead list" { // a dead letter reaches SQL some milliseconds later, sooner than a person types
			script.WriteString("for i in $(seq 100); do test -n \"$(tierq dead list -o name)\" && break; sleep 0.1; done\n")
		}
		fmt.Fprintf(&script, "printf '\\n@@%d@@\\n'\n%s\n", i, strings.ReplaceAll(c, "127.0.0.1:9000", address))
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", "exec 2>&1\n"+script.String())
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "TIERQ_URL="+server)
	cmd.WaitDelay = 5 * time.Second
	out, _ := cmd.CombinedOutput() // the session ends with the last command's exit code
	var session strings.Builder
	parts := regexp.MustCompile(`\n@@\d+@@\n`).Split(string(out), -1)
	if len(parts) != len(commands)+1 {
		t.Fatalf("%d outputs of %d commands: %s", len(parts)-1, len(commands), out)
	}
	for i, c := range commands {
		session.WriteString("$ " + c + "\n" + parts[i+1])
		if s := parts[i+1]; s != "" && !strings.HasSuffix(s, "\n") {
			session.WriteString("\n")
		}
	}
	return session.String()
}

var (
	anID     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`)
	changing = regexp.MustCompile(`\b\d+(\.\d+)?(µs|ms|s|m)\b( ` +
		`ago)?|\b[0-9a-f]{32}\b|\b[A-Za-z0-9.-]+-\d+-[0-9a-f]{8}\b|"(elapsedMs|computed)":[^,}]+`)
	whitespace = regexp.MustCompile(`[ \t]+`)
)

// timeless removes from a session all that differs between runs: it replaces ids by their order, and times and
// names by a sign.
func timeless(session string) string {
	seen := map[string]string{}
	session = anID.ReplaceAllStringFunc(session, func(id string) string {
		if seen[id] == "" {
			seen[id] = fmt.Sprintf("<job %d>", len(seen)+1)
		}
		return seen[id]
	})
	session = changing.ReplaceAllString(session, "<...>")
	return whitespace.ReplaceAllString(session, " ")
}

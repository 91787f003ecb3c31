package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A module outside this repository links its handlers into a server of its own, which runs its jobs beside the built-in
// ones, checks its payloads at submit, and drains on SIGTERM.
func TestOwnServer(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/JOB_TYPES.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "```go\npackage main\n")
	text, _, ended := strings.Cut(text, "```")
	if !found || !ended {
		t.Fatal("docs/JOB_TYPES.md has no program")
	}
	bin := buildOwnServer(t, "package main\n"+text)
	s := startServer(t, bin, "TIERQ_ADDR=127.0.0.1:0", "TIERQ_DATA_DIR="+t.TempDir())
	id := s.submit("paid", `{"type":"RESIZE","payload":{"width":7}}`)
	if p := s.await(id, "COMPLETED", 20*time.Second); string(p.Result) != `{"width":14}` {
		t.Errorf("the result is %s", p.Result)
	}
	wants(t, s.ask("paid", `{"type":"RESIZE","payload":{"width":-1}}`), http.StatusUnprocessableEntity, "INVALID_PAYLOAD")
	wants(t, s.ask("paid", `{"type":"RESIZE","payload":{"widht":7}}`), http.StatusUnprocessableEntity, "INVALID_PAYLOAD")
	s.await(s.submit("public", `{"type":"SIMULATION"}`), "COMPLETED", 20*time.Second)
	if code, _ := s.terminate(20 * time.Second); code != 0 {
		t.Errorf("exit %d after SIGTERM", code)
	}
}

// buildOwnServer builds a program in a module that requires tierq as its own go.mod does.
func buildOwnServer(t *testing.T, text string) string {
	t.Helper()
	repository, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(repository, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile(filepath.Join(repository, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	const tierq = "github.com/tierq/tierq"
	requires := regexp.MustCompile(`(?m)^module .*$`).ReplaceAllString(string(mod), "module example.com/own")
	requires += fmt.Sprintf("\nrequire %s v0.1.0\n\nreplace %[1]s => %s\n\nreplace %[1]s/client => %[2]s/client\n",
		tierq, repository)
	dir := outside(t, map[string]string{"main.go": text, "go.mod": requires, "go.sum": string(sum)})
	build := exec.CommandContext(t.Context(), "go", "build", "-mod=mod", "-ldflags=-s -w", "-o", "own", ".")
	build.Dir, build.Env = dir, append(os.Environ(), "GOWORK=off", "GOPROXY=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(dir, "own")
}

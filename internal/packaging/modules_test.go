package packaging

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/release"
)

const (
	server    = "github.com/tierq/tierq"
	sdk       = server + "/client"
	untagged  = "v0.1.0" // of the client, as go.mod requires it
	elsewhere = server + "/worker"
)

// goCommand runs go in a folder, with its own module cache and these proxies, and returns its output.
func goCommand(t *testing.T, dir string, environ []string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	cmd.Env = append(
		append(os.Environ(), "GOWORK=", "GOTOOLCHAIN=local", "GOFLAGS=-modcacherw -trimpath -tags=nomsgpack"),
		environ...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func mustGo(t *testing.T, dir string, environ []string, args ...string) string {
	t.Helper()
	out, err := goCommand(t, dir, environ, args...)
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A module that requires old versions of the server's libraries, and imports the client, keeps its go.mod
// unchanged.
func TestClientRaisesNothing(t *testing.T) {
	t.Parallel()
	proxy, dir := t.TempDir(), t.TempDir()
	if err := release.PutModule(proxy, root+"/client", sdk, untagged); err != nil {
		t.Fatal(err)
	}
	main := "package main\n\nimport (\n\t\"github.com/tierq/tierq/client\"\n"
	mod := "module example.com/shop\n\ngo 1.26.0\n\nrequire (\n"
	for _, old := range [][2]string{{"github.com/gin-gonic/gin", "v1.6.0"}, {sdk, untagged},
		{"go.opentelemetry.io/otel", "v1.0.0"}, {"google.golang.org/grpc", "v1.20.0"}} {
		mod += "\t" + old[0] + " " + old[1] + "\n"
		if old[0] == sdk {
			continue
		}
		main += "\t_ \"" + old[0] + "\"\n"
		// The modules in the proxy are tiny: only their versions matter.
		for _, version := range []string{old[1], "v1.99.0"} {
			files := map[string][]byte{"x.go": []byte("package x\n")}
			if err := release.PutFiles(proxy, old[0], version, []byte("module "+old[0]+"\n\ngo 1.26.0\n"), files); err != nil {
				t.Fatal(err)
			}
		}
	}
	mod += ")\n"
	writeFiles(
		t,
		dir,
		map[string]string{
			"go.mod":  mod,
			"main.go": main + ")\n\nfunc main() { client.New(\"http://127.0.0.1:1\").Close() }\n",
		},
	)
	environ := []string{"GOPROXY=file://" + proxy, "GOSUMDB=off", "GOMODCACHE=" + t.TempDir()}
	mustGo(t, dir, environ, "mod", "tidy")
	mustGo(t, dir, environ, "build", "-mod=mod", "-o", filepath.Join(dir, "shop"), ".")
	got, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil || string(got) != mod {
		t.Errorf("go.mod becomes\n%s\n%v", got, err)
	}
	if all := strings.Fields(mustGo(t, dir, environ, "list", "-m", "-f", "{{.Path}}", "all")); len(all) != 5 {
		t.Errorf("the module graph is %q", all)
	}

	// A client with one requirement raises it, so the check works.
	files := map[string][]byte{"x.go": []byte("package client\n\nimport _ \"google.golang.org/grpc\"\n")}
	heavy := []byte("module " + sdk + "\n\ngo 1.26.0\n\nrequire google.golang.org/grpc v1.99.0\n")
	if err := release.PutFiles(proxy, sdk, "v0.2.0", heavy, files); err != nil {
		t.Fatal(err)
	}
	mustGo(t, dir, environ, "get", sdk+"@v0.2.0")
	if got, err := os.ReadFile(filepath.Join(dir, "go.mod")); err != nil ||
		!strings.Contains(string(got), "grpc v1.99.0") {
		t.Errorf("a client that requires grpc v1.99.0 leaves\n%s%v", got, err)
	}
}

// go.work replaces the client's version that go.mod requires, which may not be published yet. bench and
// compat are not affected, because each has a go.work of its own.
func TestWorkspace(t *testing.T) {
	if mod := readMod(t, root); len(mod.Replace) > 0 {
		t.Errorf("go.mod replaces %v: go install refuses such a module", mod.Replace)
	}
	work, err := os.ReadFile(root + "/go.work")
	if err != nil {
		t.Fatal(err)
	}
	if want := "replace " + sdk + " " + requiredClient(t) + " => ./client\n"; !strings.Contains(string(work), want) {
		t.Errorf("go.work lacks %q", want)
	}
	if out := strings.Fields(mustGo(t, root, nil, "list", "-m")); strings.Join(out, " ") != server+" "+sdk+" "+elsewhere {
		t.Errorf("the workspace has %q", out)
	}
	for _, module := range []string{"bench", "compat"} {
		if out := strings.TrimSpace(mustGo(t, root+"/"+module, nil, "list", "-m")); out != server+"/"+module {
			t.Errorf("the workspace of %s has %q", module, out)
		}
	}
}

type modFile struct {
	Require []struct{ Path, Version string }
	Replace []struct{ Old struct{ Path string } }
}

func readMod(t *testing.T, dir string) (mod modFile) {
	t.Helper()
	if err := json.Unmarshal([]byte(mustGo(t, dir, nil, "mod", "edit", "-json")), &mod); err != nil {
		t.Fatal(err)
	}
	return mod
}

// requiredClient returns the version of the client that the server requires.
func requiredClient(t *testing.T) string {
	t.Helper()
	for _, r := range readMod(t, root).Require {
		if r.Path == sdk {
			return r.Version
		}
	}
	t.Fatal("go.mod does not require the client")
	return ""
}

package packaging

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/config"
)

type instruction struct{ verb, rest string }

// dockerfile returns the stages of the Dockerfile. The first instruction of each is its FROM.
func dockerfile(t *testing.T) [][]instruction {
	t.Helper()
	text, err := os.ReadFile(root + "/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	joined := strings.ReplaceAll(string(text), "\\\n", " ")
	var stages [][]instruction
	for line := range strings.Lines(joined) {
		verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case verb == "" || verb[0] == '#':
			continue
		case verb == "FROM":
			stages = append(stages, nil)
		case len(stages) == 0:
			t.Fatalf("%s before the first FROM", verb)
		}
		last := &stages[len(stages)-1]
		*last = append(*last, instruction{verb, strings.Join(strings.Fields(rest), " ")})
	}
	return stages
}

// find returns the only instruction of a stage that has this verb and contains part.
func find(t *testing.T, stage []instruction, verb, part string) string {
	t.Helper()
	var found []string
	for _, i := range stage {
		if i.verb == verb && strings.Contains(i.rest, part) {
			found = append(found, i.rest)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d instructions %s with %q, want 1", len(found), verb, part)
	}
	return found[0]
}

func TestImage(t *testing.T) {
	t.Attr("proves", "S4-D2")
	stages := dockerfile(t)
	last := stages[len(stages)-1]
	if last[0] != (instruction{"FROM", "scratch"}) {
		t.Errorf("the image is from %q", last[0].rest)
	}
	user := find(t, last, "USER", "")
	if !regexp.MustCompile(`^[1-9][0-9]*:[1-9][0-9]*$`).MatchString(user) {
		t.Errorf("USER %s is not a number, or root", user)
	}
	find(t, last, "COPY", "/etc/ssl/certs/ca-certificates.crt")
	if data := find(t, last, "COPY", "/data"); !strings.Contains(data, "--chown="+user+" ") {
		t.Errorf("/data does not belong to %s: COPY %s", user, data)
	}
	find(t, last, "VOLUME", "/data")
	for _, label := range []string{"title", "description", "source", "licenses", "version"} {
		find(t, last, "LABEL", "org.opencontainers.image."+label+"=")
	}
	if got := find(t, last, "ENTRYPOINT", ""); got != `["/tierq"]` {
		t.Errorf("ENTRYPOINT %s", got)
	}
	check := find(t, last, "HEALTHCHECK", "")
	if !strings.HasSuffix(check, `CMD ["/tierq", "healthcheck"]`) {
		t.Errorf("HEALTHCHECK %s", check)
	}
	timeout := regexp.MustCompile(`--timeout=(\S+)`).FindStringSubmatch(check)
	if timeout == nil {
		t.Fatal("HEALTHCHECK without a timeout")
	}
	if d, err := time.ParseDuration(timeout[1]); err != nil || d <= 3*time.Second {
		t.Errorf("HEALTHCHECK kills tierq healthcheck before it gives up by itself: %v, %v", d, err)
	}
}

// The image opens exactly one address to its network. It sets neither TIERQ_ADMIN_KEY nor TIERQ_INSECURE: the user
// decides who may call the server.
func TestImageSettings(t *testing.T) {
	stages := dockerfile(t)
	environ := strings.Fields(find(t, stages[len(stages)-1], "ENV", "TIERQ_"))
	c, err := config.Load(environ, "", nil)
	if err != nil || c.DataDir != "/data" || len(c.Wide()) != 1 || c.Insecure || c.AdminKey != "" {
		t.Errorf("%v\n%v", err, c)
	}
}

// mounts matches the options of an instruction that BuildKit removes before the shell sees the command.
var mounts = regexp.MustCompile(`--mount=\S+ `)

// The command of the Dockerfile makes a binary that needs no file of its image.
func TestImageBinaryIsStatic(t *testing.T) {
	build := find(t, dockerfile(t)[0], "RUN", "go build")
	binary := filepath.Join(t.TempDir(), "tierq")
	command := strings.Replace(mounts.ReplaceAllString(build, ""), "-o /out/tierq", "-o "+binary, 1)
	if !strings.Contains(command, binary) {
		t.Fatalf("the build has no -o /out/tierq: %s", build)
	}
	for _, flag := range []string{"CGO_ENABLED=0 ", " -trimpath ", " -tags=nomsgpack "} { // the Makefile's
		if !strings.Contains(command, flag) {
			t.Errorf("the build lacks %s: %s", flag, build)
		}
	}
	for _, cache := range []string{"/go/pkg/mod", "/root/.cache/go-build"} {
		if !strings.Contains(build, "--mount=type=cache,target="+cache+" ") {
			t.Errorf("the build does not keep %s: %s", cache, build)
		}
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Dir = root
	// The Makefile's flags let this test use Go's build cache also when it runs without make.
	cmd.Env = append(os.Environ(), "VERSION=v9.8.7", "GOOS=linux", "GOFLAGS=-trimpath -tags=nomsgpack")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	f, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the binary asks for a dynamic loader")
		}
	}
	if libs, err := f.ImportedLibraries(); err != nil || len(libs) > 0 {
		t.Errorf("the binary asks for %q, %v", libs, err)
	}
	text, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "v9.8.7") {
		t.Error("the version does not reach the binary")
	}
}

// The image's build context contains no build results and no .env, and the Dockerfile names no registry and no
// private image.
func TestImageContext(t *testing.T) {
	ignored, err := os.ReadFile(root + "/.dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".env", ".git", "data", "bin", "dist"} {
		if !strings.Contains("\n"+string(ignored), "\n"+name+"\n") {
			t.Errorf(".dockerignore lacks %s", name)
		}
	}
	for _, stage := range dockerfile(t) {
		if image, _, _ := strings.Cut(stage[0].rest, " "); strings.Contains(image, "/") {
			t.Errorf("FROM %s names a registry", image)
		}
	}
}

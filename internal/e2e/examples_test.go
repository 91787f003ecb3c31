package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// An example is a folder below examples. Its README has the commands: the worker's and the submit's, or one for both.
type example struct {
	folder   string
	language string   // of its worker, as operators see it; "" = its one command needs no worker beside it
	block    int      // which program of the README has the commands, from 0
	prints   string   // the end of the job, in the submit's output
	needs    []string // folders that its commands read
	program  string   // the file that docs/WORKERS.md has too
	fence    string   // the mark in front of the program in that page; "" = the page has it not
	jobs     []string // the types of the jobs that the server has in the end, sorted; nil = RESIZE
}

var examples = []example{
	{"go", "go", 0, ` COMPLETED {"width":1024}`, []string{"client", "worker"}, "worker/main.go", "go", nil},
	{"node", "node", 0, ` COMPLETED { width: 1024 }`, []string{"sdk/node"}, "worker.js", "js", nil},
	{"python", "python", 0, ` COMPLETED {'width': 1024}`, []string{"sdk/python"}, "worker.py", "python", nil},
	{"curl", "", 0, `"currentJobStatus":"COMPLETED"`, nil, "first-job.sh", "sh", nil},
	{"flow", "python", 0, ` COMPLETED {'published': 'ada.jpg.small'}`, []string{"sdk/python"}, "worker.py", "py", steps},
	{"flow", "node", 1, ` COMPLETED { published: 'ada.jpg.small' }`, []string{"sdk/node"}, "worker.js", "", steps},
	{"batch", "", 0, imported, []string{"sdk/python"}, "import.py", "Python", rows},
	{"batch", "", 1, imported, []string{"sdk/node"}, "import.js", "", rows},
	{"schedule", "", 0, "a report now is COMPLETED", []string{"sdk/python"}, "report.py", "", []string{"REPORT"}},
	{"schedule", "", 1, "a report now is COMPLETED", []string{"sdk/node"}, "report.js", "", []string{"REPORT"}},
}

var imported = fmt.Sprintf("%[1]d of %[1]d rows, and the mail is COMPLETED", importRows)

var (
	steps = []string{"PUBLISH", "RESIZE", "SCAN"}
	rows  = slices.Repeat([]string{"SIMULATION"}, 20) // the first page of the list
)

// offline are the settings with which no tool asks another host. A test's process inherits none of them.
var offline = []string{"GOPROXY=off", "GOWORK=", "CGO_ENABLED=0", "PYTHONDONTWRITEBYTECODE=1",
	"npm_config_offline=true", "npm_config_audit=false", "npm_config_fund=false", "npm_config_update_notifier=false"}

// Each example runs with the commands of its README, and its job is COMPLETED.
func TestExamples(t *testing.T) {
	t.Parallel()
	folders, err := os.ReadDir("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	run := map[string]bool{}
	for _, e := range examples {
		run[e.folder] = true
	}
	if len(folders) != len(run)+1 { // and README.md
		t.Errorf("examples has %v, of which %d folders are run", folders, len(run))
	}
	for _, e := range examples {
		t.Run(fmt.Sprint(e.folder, e.block), func(t *testing.T) {
			t.Parallel()
			e.runs(t)
		})
	}
}

func (e example) runs(t *testing.T) {
	dir := filepath.Join(copied(t, append(e.needs, "examples/"+e.folder)...), "examples", e.folder)
	s := startServer(t, testkit.BuildTierq(t), "TIERQ_ADDR=127.0.0.1:0", "TIERQ_DATA_DIR="+t.TempDir())
	env := append([]string{"TIERQ_URL=" + s.base}, offline...)
	commands := e.commands(t)
	if e.language != "" {
		worker := testkit.StartProcess(t, "sh", env, "-c", "cd '"+dir+"' && "+commands[0])
		t.Cleanup(func() { endWorkers(t, s, worker) })
		s.listedWithin(2*time.Minute, func(w workerRow) bool { return w.Kind == "http" && w.Language == e.language })
	}
	last := commands[len(commands)-1]
	if e.folder == "batch" {
		last += fmt.Sprint(" ", importRows)
	}
	submit := exec.CommandContext(t.Context(), "sh", "-c", last)
	submit.Dir, submit.Env = dir, append(os.Environ(), env...)
	out, err := submit.CombinedOutput()
	if err != nil || !strings.Contains(string(out), e.prints) {
		t.Fatalf("%s: %v, it prints\n%s", last, err, out)
	}
	a := do(t, http.MethodGet, s.base+"/api/jobs", "")
	var list struct {
		Items []struct{ Type, Status string }
	}
	if err := json.Unmarshal(a.body, &list); err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, j := range list.Items {
		if types = append(types, j.Type); j.Status != "COMPLETED" {
			t.Errorf("the server has %s", a.body)
		}
	}
	slices.Sort(types)
	want := e.jobs
	if want == nil {
		want = []string{"RESIZE"}
	}
	if !slices.Equal(types, want) {
		t.Errorf("the server has %s", a.body)
	}
}

// commands returns the commands of the example: the lines of a program of its README.
func (e example) commands(t *testing.T) []string {
	t.Helper()
	text := allFenced(t, filepath.Join("../../examples", e.folder, "README.md"), "sh")[e.block]
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if want := map[bool]int{true: 2, false: 1}[e.language != ""]; len(lines) != want {
		t.Fatalf("the README has %d commands, not %d: %q", len(lines), want, lines)
	}
	return lines
}

// endWorkers asks the workers of a server to end, as an operator would, until the command of one of them has ended. A
// kill of the command would leave its worker behind: go and npm start it as a child.
func endWorkers(t *testing.T, s *server, command *testkit.Process) {
	asked := map[string]bool{}
	testkit.Eventually(t, 2*time.Minute, "the worker ends", func() (bool, string) {
		var list struct{ Items []workerRow }
		a := do(t, http.MethodGet, s.base+"/admin/workers", "")
		if err := json.Unmarshal(a.body, &list); err != nil {
			t.Fatal(err)
		}
		for _, w := range list.Items {
			if w.Kind == "http" && !asked[w.Name] {
				asked[w.Name] = true
				do(t, http.MethodPost, s.base+"/admin/workers/"+w.Name+"/terminate", "")
			}
		}
		return command.Exited(), string(a.body)
	})
}

// docs/WORKERS.md shows the programs of the examples as they are.
func TestExamples_AreDocumented(t *testing.T) {
	t.Parallel()
	for _, e := range examples {
		if e.fence == "" {
			continue
		}
		program, err := os.ReadFile(filepath.Join("../../examples", e.folder, e.program))
		if err != nil {
			t.Fatal(err)
		}
		shown := fenced(t, "../../docs/WORKERS.md", e.fence)
		whole := e.fence != "sh" // the script has more: a head, and a poll
		if whole && string(program) != shown || !strings.Contains(string(program), shown) {
			t.Errorf("examples/%s/%s differs from what docs/WORKERS.md shows:\n%s", e.folder, e.program, shown)
		}
	}
}

// The programs of the libraries' READMEs, but for the first of each, are parts of examples, which TestExamples runs.
func TestExamples_InLibraries(t *testing.T) {
	t.Parallel()
	for sdk, fence := range map[string]string{"sdk/node": "js", "sdk/python": "python"} {
		shown := allFenced(t, filepath.Join("../..", sdk, "README.md"), fence)[1:]
		if len(shown) < 3 {
			t.Errorf("%s shows %d programs", sdk, len(shown))
		}
		for _, part := range shown {
			if !strings.Contains(programs(t), part) {
				t.Errorf("%s shows what is in no example:\n%s", sdk, part)
			}
		}
	}
}

// programs returns the texts of all files of the examples.
func programs(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("../../examples/*/*.*")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// fenced returns the first program of a page behind a mark.
func fenced(t *testing.T, page, mark string) string {
	t.Helper()
	return allFenced(t, page, mark)[0]
}

// allFenced returns the programs of a page behind a mark, of which there must be one.
func allFenced(t *testing.T, page, mark string) (programs []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, rest := range strings.Split(string(text), "```"+mark+"\n")[1:] {
		program, _, ended := strings.Cut(rest, "```")
		if !ended {
			t.Fatalf("%s has a program without an end: %s", page, program)
		}
		programs = append(programs, program)
	}
	if len(programs) == 0 {
		t.Fatalf("%s has no program behind %q", page, mark)
	}
	return programs
}

// copied copies folders of the repository to another place, so that a command leaves nothing in the repository.
func copied(t *testing.T, folders ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, folder := range folders {
		to := filepath.Join(dir, folder)
		if err := os.CopyFS(to, os.DirFS(filepath.Join("../..", folder))); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// libraries are the worker libraries. Each returns a program that uses the one in the repository, from a folder
// outside, and whose text is given.
var libraries = map[string]func(t *testing.T, repository, text string) library{
	"go": outsideModule,
	"python": func(t *testing.T, repository, text string) library {
		file := filepath.Join(outside(t, map[string]string{"worker.py": text}), "worker.py")
		env := []string{"PYTHONPATH=" + filepath.Join(repository, "sdk", "python"), "PYTHONDONTWRITEBYTECODE=1"}
		return library{"python3", []string{file}, env}
	},
	"node": func(t *testing.T, repository, text string) library {
		dir := outside(t, map[string]string{"worker.mjs": text})
		if err := os.Mkdir(filepath.Join(dir, "node_modules"), 0o700); err != nil {
			t.Fatal(err)
		}
		err := os.Symlink(filepath.Join(repository, "sdk", "node"), filepath.Join(dir, "node_modules", "tierq"))
		if err != nil {
			t.Fatal(err)
		}
		return library{bin: "node", args: []string{filepath.Join(dir, "worker.mjs")}}
	},
}

// library is how a worker that uses a library is started.
type library struct {
	bin       string
	args, env []string
}

// workerOf makes a program of a language.
func workerOf(t *testing.T, language, text string) library {
	t.Helper()
	repository, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return libraries[language](t, repository, text)
}

// start starts the program as a worker of a server.
func (p library) start(t *testing.T, s *server) *testkit.Process {
	t.Helper()
	return testkit.StartProcess(t, p.bin, append([]string{"TIERQ_URL=" + s.base}, p.env...), p.args...)
}

// with returns the program with more of an environment.
func (p library) with(env ...string) library {
	p.env = append(slices.Clone(p.env), env...)
	return p
}

// outside writes files into a folder outside the repository.
func outside(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// outsideModule builds a program that is a module of its own, and requires the worker library only.
func outsideModule(t *testing.T, repository, text string) library {
	t.Helper()
	const path = "github.com/tierq/tierq/worker"
	dir := outside(t, map[string]string{
		"main.go": text,
		"go.mod": fmt.Sprintf("module example.com/pictures\n\ngo 1.26.0\n\nrequire %s v0.1.0\n\nreplace %[1]s => %s\n",
			path, filepath.Join(repository, "worker")),
	})
	build := exec.CommandContext(t.Context(), "go", "build", "-o", "program", ".")
	build.Dir, build.Env = dir, append(os.Environ(), "GOWORK=off", "GOPROXY=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return library{bin: filepath.Join(dir, "program")}
}

// A program outside this repository runs thousands of jobs with each library. It is killed in the middle, and another
// one goes on: each job has one outcome and the right result, and each attempt beyond the first has its reason.
func TestWorkerLibraries_Kill(t *testing.T) {
	t.Parallel()
	for language := range libraries {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			killLibrary(t, language)
		})
	}
}

// heldNumber is the job that the programs do not end at the first attempt.
const heldNumber = 1000

func killLibrary(t *testing.T, language string) {
	const jobs = libraryJobs
	text, err := os.ReadFile(filepath.Join("testdata", "libraries", "worker."+language+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	p := workerOf(t, language, string(text))
	c := newCluster(t)
	s := c.start("TIERQ_ROLES=api,recovery", "TIERQ_ADDRESS_RATE=1000000")
	s.changes(http.MethodPut, "/admin/queues/numbers", `{"limit":20000}`, 200)
	numbers, held := map[string]int{}, ""
	for first := 0; first < jobs; first += 1000 {
		entries := make([]string, 1000)
		for i := range entries {
			entries[i] = fmt.Sprintf(`{"type":"DOUBLE","queue":"numbers","payload":{"n":%d}}`, first+i)
		}
		answers, _ := s.batch("paid", "application/json", entries)
		for i, one := range answers {
			if numbers[one.JobID] = first + i; first+i == heldNumber {
				held = one.JobID
			}
		}
	}
	first := p.start(t, s)
	testkit.Eventually(t, 60*time.Second, "the handler holds the job", func() (bool, string) {
		return strings.Contains(first.Output(), "HOLDING"), first.Output()
	})
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	if n := len(c.outcomes()); n >= jobs {
		t.Fatalf("%d jobs had ended before the kill", n)
	}
	second := p.start(t, s)
	ids := make([]string, 0, jobs)
	for id := range numbers {
		ids = append(ids, id)
	}
	for id, outcome := range c.settled(2*time.Minute, ids...) {
		if outcome != "COMPLETED" {
			t.Errorf("%s is %s", id, outcome)
		}
	}
	c.each(`SELECT job_id, result FROM job_results`, func(id, result string) {
		var got struct{ N int }
		if err := json.Unmarshal([]byte(result), &got); err != nil || got.N != 2*numbers[id] {
			t.Errorf("the result of %d is %s", numbers[id], result)
		}
	})
	crashes := c.crashes(map[string]bool{strconv.Itoa(first.Pid()): true})
	if crashes[held] != 1 {
		t.Errorf("the job that was running had %d crashes", crashes[held])
	}
	failures := map[string]int{}
	c.each(`SELECT job_id, error FROM job_attempts WHERE outcome = 'HANDLER_ERROR'`, func(id, _ string) {
		if failures[id]++; failures[id] > 1 || numbers[id]%100 != 0 {
			t.Errorf("the job of %d has failed, %d times", numbers[id], failures[id])
		}
	})
	for id, spent := range c.spent() {
		if spent != failures[id]+crashes[id] {
			t.Errorf("the job of %d has spent %d retries: %d crashes, %d failures", numbers[id], spent, crashes[id],
				failures[id])
		}
	}
	t.Logf("evidence: %d jobs; %d were running when the worker was killed, %d failed once", jobs, len(crashes),
		len(failures))
	listed := s.listed(func(w workerRow) bool { return w.PID == second.Pid() })
	if listed.Kind != "http" || listed.Language != language || listed.Slots != 50 || listed.Queues[0] != "numbers" {
		t.Errorf("operators see %+v", listed)
	}
	s.changes(http.MethodPost, "/admin/workers/"+listed.Name+"/terminate", "", 200)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if code, err := second.WaitExit(ctx); err != nil || code != 0 {
		t.Errorf("after terminate: exit %d, %v", code, err)
	}
	c.quiet(20 * time.Second)
}

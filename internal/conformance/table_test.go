package conformance

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/testkit"
)

// One worker of each library with four slots runs the table, and a good job after each row. Each row ends as it must,
// each good job completes and was started once, no lease goes without heartbeats, and the worker lives on.
func TestLibraries(t *testing.T) {
	t.Parallel()
	for language := range languages {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			for _, problem := range runTable(t, programOf(t, language), table(language), 45*time.Second) {
				t.Error(problem)
			}
		})
	}
}

// runTable runs rows on one worker, which has some time for them, and returns what is wrong.
func runTable(t testing.TB, p program, rows []row, most time.Duration) (problems []string) {
	f := newFake(t)
	worker := p.start(t, f)
	for i, r := range rows {
		f.add(r.name(), r.behaviour, r.input(), func(j *job) {
			if r.change != nil {
				r.change(j)
			}
		})
		f.add(good(i), "GOOD", fmt.Sprintf(`{"n":%d}`, i))
	}
	f.until(most, func() bool { return worker.Exited() || f.settled() })
	problems = f.checkRows(rows, p.language)
	if worker.Exited() {
		problems = append(problems, "the worker has ended: "+tail(worker.Output()))
	} else if err := f.lastJob(t, worker); err != nil {
		problems = append(problems, err.Error())
	}
	problems = append(problems, startedOnce(worker)...)
	f.with(func() { problems = append(problems, f.wrong...) })
	return problems
}

// checkRows checks the rows' jobs, and the good job beside each. Jobs that were never handed out are one problem.
func (f *fake) checkRows(rows []row, language string) (problems []string) {
	never := 0
	for i, r := range rows {
		if err := f.checkRow(r, language); errors.Is(err, errNever) {
			never++
		} else if err != nil {
			problems = append(problems, fmt.Sprintf("%s: %s: %v", language, r.name(), err))
		}
		if err := f.checkGood(i); errors.Is(err, errNever) {
			never++
		} else if err != nil {
			problems = append(problems, fmt.Sprintf("%s: beside %s: %v", language, r.name(), err))
		}
	}
	if never > 0 {
		problems = append(problems, fmt.Sprintf("%s: %d jobs were never claimed", language, never))
	}
	return problems
}

var errNever = errors.New("it was never claimed")

// lastJob gives an idle worker a job, and ends it.
func (f *fake) lastJob(t testing.TB, worker *testkit.Process) error {
	f.add("last", "GOOD", `{"n":-1}`)
	if !f.until(10*time.Second, func() bool { return f.jobs["last"].report != nil }) {
		return errors.New("the worker takes no job any more")
	}
	if err := ends(t, worker, 20*time.Second); err != nil {
		return fmt.Errorf("at SIGTERM: %w", err)
	}
	if !strings.Contains(worker.Output(), "RUN ENDED") {
		return errors.New("run did not return")
	}
	return nil
}

func good(i int) string { return "good-" + strconv.Itoa(i) }

// settled says whether all jobs were reported. f.mu is held.
func (f *fake) settled() bool {
	for _, j := range f.jobs {
		if j.report == nil {
			return false
		}
	}
	return true
}

// checkRow compares what the server was told of a row's job.
func (f *fake) checkRow(r row, language string) error {
	w, j := r.wants(language), f.jobs[r.name()]
	said := f.reportOf(r.name())
	f.mu.Lock()
	defer f.mu.Unlock()
	if j.attempt == 0 {
		return errNever
	}
	if j.report == nil {
		return fmt.Errorf("no report after %d hand-outs", j.attempt)
	}
	if err := w.check(said); err != nil {
		return err
	}
	saved := slices.CompactFunc(slices.Clone(j.saved), func(a, b string) bool { return same([]byte(a), []byte(b)) })
	if w.saved != nil && !slices.EqualFunc(w.saved, saved, func(a, b string) bool { return same([]byte(a), []byte(b)) }) {
		return fmt.Errorf("the checkpoints were %.300s, want %s", saved, w.saved)
	}
	if w.done != "" && (len(j.told) == 0 || strconv.FormatInt(j.told[len(j.told)-1].done, 10) != w.done) {
		return fmt.Errorf("the progress was %v, want %s done", j.told, w.done)
	}
	if w.logged && len(j.lines) == 0 {
		return errors.New("no line of its log came")
	}
	return nil
}

// checkGood checks a good job: it completed, was handed out once, and started once.
func (f *fake) checkGood(i int) error {
	said := f.reportOf(good(i))
	f.mu.Lock()
	defer f.mu.Unlock()
	j := f.jobs[good(i)]
	switch {
	case j.attempt == 0:
		return errNever
	case j.report == nil:
		return fmt.Errorf("the good job has no report after %d hand-outs", j.attempt)
	case j.attempt != 1:
		return fmt.Errorf("the good job was handed out %d times; the answers to the first claim: %q", j.attempt,
			j.claims[0].history)
	}
	return completed(fmt.Sprintf(`{"good":%d,"starts":1}`, i)).check(said)
}

// startedOnce says which attempts were started more than once.
func startedOnce(worker *testkit.Process) (problems []string) {
	seen := map[string]int{}
	for line := range strings.Lines(worker.Output()) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "START ") {
			if seen[line]++; seen[line] == 2 {
				problems = append(problems, "twice: "+line)
			}
		}
	}
	return problems
}

// tail returns the end of a text.
func tail(text string) string { return text[max(len(text)-2000, 0):] }

package conformance

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// everyLibrary runs a test for each library, all at once.
func everyLibrary(t *testing.T, test func(t *testing.T, p program)) {
	t.Parallel()
	for language := range languages {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			test(t, programOf(t, language))
		})
	}
}

// sound reports what the fake server heard that no worker may say.
func (f *fake) sound(t testing.TB) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.wrong {
		t.Error(w)
	}
}

// A handler ends the process: the worker reports nothing of it, and the next hand-out goes to another process.
func TestExit(t *testing.T) {
	everyLibrary(t, func(t *testing.T, p program) { p.ended(t, "EXIT", 7) })
}

// An error that no handler can be blamed for ends the process, as it does in any program.
func TestExit_ErrorElsewhere(t *testing.T) {
	t.Parallel()
	for language, code := range map[string]int{"go": 2, "node": 1} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			programOf(t, language).ended(t, "ERROR_ELSEWHERE", code)
		})
	}
}

// ended runs a behaviour that ends the process, and another process.
func (p program) ended(t *testing.T, behaviour string, code int) {
	f := newFake(t)
	f.lapses, f.leaseFor, f.every = true, 3*time.Second, time.Second
	f.add("exit", behaviour, `{}`)
	worker := p.start(t, f)
	if err := exits(t, worker, code, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	f.with(func() {
		j := f.jobs["exit"]
		if j.report != nil {
			t.Errorf("the process that ended has reported %s", j.report)
		}
		j.typ, j.payload = "GOOD", []byte(`{"n":1}`) // the next attempt ends well
	})
	next := p.start(t, f)
	if err := completed(`{"good":1,"starts":1}`).check(f.await(t, "exit", 20*time.Second)); err != nil {
		t.Error(err)
	}
	if n := f.jobs["exit"].attempt; n != 2 {
		t.Errorf("%d attempts, want 2", n)
	}
	if err := ends(t, next, 20*time.Second); err != nil {
		t.Error(err)
	}
	f.sound(t)
}

// unknownQueue is the answer to a claim whose queue is not declared.
func unknownQueue() *act {
	return refused(404, "UNKNOWN_QUEUE", `the queue "conformance" is not declared`)
}

// A queue that is not declared for ten seconds ends run, with an error that says what to type.
func TestUnknownQueue(t *testing.T) {
	everyLibrary(t, func(t *testing.T, p program) {
		f := newFake(t)
		f.script = func(string, int, []byte) *act { return unknownQueue() }
		began := time.Now()
		worker := p.start(t, f)
		if err := exits(t, worker, 3, 30*time.Second); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 9*time.Second {
			t.Errorf("run ended after %s: another process may declare the queue within 10 s", took)
		}
		_, said, _ := strings.Cut(worker.Output(), "RUN FAILED:")
		for _, part := range []string{"is not declared", "tierq queues declare conformance --type "} {
			if !strings.Contains(said, part) {
				t.Errorf("the error of run lacks %q: %s", part, said)
			}
		}
		if n := f.count("claim", began); n > 60 {
			t.Errorf("%d claims in 10 s", n)
		}
	})
}

// A queue that is declared three seconds later is served.
func TestUnknownQueue_Declared(t *testing.T) {
	everyLibrary(t, func(t *testing.T, p program) {
		f, first := newFake(t), time.Time{}
		f.script = func(verb string, _ int, _ []byte) *act {
			if first.IsZero() {
				first = time.Now()
			}
			if verb != "claim" || time.Since(first) > 3*time.Second {
				return nil
			}
			return unknownQueue()
		}
		f.add("good", "GOOD", `{"n":1}`)
		worker := p.start(t, f)
		if err := completed(`{"good":1,"starts":1}`).check(f.await(t, "good", 20*time.Second)); err != nil {
			t.Error(err)
		}
		if err := ends(t, worker, 20*time.Second); err != nil {
			t.Error(err)
		}
		f.sound(t)
	})
}

// The refusal of the very first claim ends run: the key is wrong, for example.
func TestFirstClaimRefused(t *testing.T) {
	everyLibrary(t, func(t *testing.T, p program) {
		f := newFake(t)
		f.script = func(string, int, []byte) *act { return refused(401, "UNAUTHENTICATED", "the key is not known") }
		worker := p.start(t, f)
		if err := exits(t, worker, 3, 20*time.Second); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(worker.Output(), "the key is not known") {
			t.Errorf("the error does not say why: %s", tail(worker.Output()))
		}
	})
}

// A hundred good jobs beside twenty poisonous ones of every kind that stays in the process, two of them without an end:
// all good ones complete, each started once.
func TestNeighbours(t *testing.T) {
	everyLibrary(t, func(t *testing.T, p program) {
		const poisonous, goods = 20, 100
		f := newFake(t)
		poison := poisonOf(p.language, poisonous-2)
		for i := range goods {
			if i%5 == 0 && i/5 < len(poison) {
				r := poison[i/5]
				f.add(r.name(), r.behaviour, r.input(), func(j *job) {
					if r.change != nil {
						r.change(j)
					}
				})
			}
			if i == 10 || i == 60 {
				f.add(fmt.Sprint("endless-", i), "NEVER_END", `{}`)
			}
			f.add(good(i), "GOOD", fmt.Sprintf(`{"n":%d,"seconds":0.01}`, i))
		}
		worker := p.start(t, f)
		f.until(40*time.Second, func() bool {
			return worker.Exited() || f.unreported() == 2
		})
		never := 0
		for i := range goods {
			if err := f.checkGood(i); errors.Is(err, errNever) {
				never++
			} else if err != nil {
				t.Errorf("good job %d: %v", i, err)
			}
		}
		if never > 0 {
			t.Errorf("%d good jobs were never claimed", never)
		}
		f.endless(t, worker)
		for _, twice := range startedOnce(worker) {
			t.Error(twice)
		}
		f.sound(t)
	})
}

// poisonOf returns some rows of a language, from all parts of the table.
func poisonOf(language string, n int) (some []row) {
	rows := slices.DeleteFunc(table(language), func(r row) bool {
		return r.kind == "JSON" || r.kind == "GOOD" || r.kind == "SECONDS" || r.behaviour == "BLOCK"
	})
	for i := range n {
		some = append(some, rows[i*len(rows)/n])
	}
	return some
}

// unreported returns how many jobs have no report. f.mu is held.
func (f *fake) unreported() (n int) {
	for _, j := range f.jobs {
		if j.report == nil {
			n++
		}
	}
	return n
}

package testkit

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	calmBound   = 4 * time.Second // a test that has waited this long begins anyway
	calmSamples = 5
	calmSample  = 20 * time.Millisecond
	calmTasks   = 4 // runnable tasks per core
)

// calmed holds the names of the tests that have waited.
var calmed sync.Map

// Calm delays the beginning of a test while the machine is busy: until fewer than four tasks per core are
// runnable, for at most 4 s. A server has deadlines of one and two seconds. When twenty tests share two cores,
// servers miss these deadlines, and an unrelated test fails. One test begins at a time, over all test processes of
// this user. A test and its subtests wait once, however often they call Calm.
func Calm(t testing.TB) {
	t.Helper()
	test, _, _ := strings.Cut(t.Name(), "/")
	if _, waited := calmed.LoadOrStore(test, true); waited {
		return
	}
	cache, err := os.UserCacheDir()
	if err == nil {
		cache = filepath.Join(cache, "tierq-testkit")
		err = os.MkdirAll(cache, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	turn, err := os.OpenFile(filepath.Join(cache, "calm"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = turn.Close() }() // which releases the lock
	if err := syscall.Flock(int(turn.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(calmBound); time.Now().Before(end); {
		tasks, err := runnable(calmSamples)
		if err != nil {
			t.Fatal(err)
		}
		if tasks < float64(calmTasks*runtime.NumCPU()) {
			return
		}
	}
}

// runnable returns the mean number of tasks that run or wait for a core, without this one, over some samples.
func runnable(samples int) (float64, error) {
	sum := 0
	for range samples {
		<-time.After(calmSample)
		stat, err := os.ReadFile("/proc/stat")
		if err != nil {
			return 0, err
		}
		_, behind, _ := bytes.Cut(stat, []byte("\nprocs_running "))
		text, _, _ := bytes.Cut(behind, []byte("\n"))
		n, err := strconv.Atoi(string(text))
		if err != nil {
			return 0, fmt.Errorf("/proc/stat has no procs_running: %w", err)
		}
		sum += n - 1
	}
	return float64(sum) / float64(samples), nil
}

// Package leak fails a test binary that leaves goroutines behind. It is for the client's tests. A library for it would
// be a requirement of the client's module, and so part of the graph of every module that imports the client.
package leak

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// patience is the time that ending goroutines get.
const patience = 10 * time.Second

// Main runs the tests of a package and ends the process. It is for TestMain.
func Main(m *testing.M) {
	code := m.Run()
	if left := Wait(patience); code == 0 && len(left) > 0 {
		fmt.Fprintf(os.Stderr, "%d goroutines are left:\n\n%s\n", len(left), strings.Join(left, "\n\n"))
		code = 1
	}
	os.Exit(code)
}

// Wait returns the stacks of the goroutines that still run after most, without the caller's. It returns nil as
// soon as all have ended.
func Wait(most time.Duration) []string {
	end := time.After(most)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		left := others()
		if len(left) == 0 {
			return nil
		}
		select {
		case <-end:
			return left
		case <-tick.C:
		}
	}
}

// others returns the stacks of all goroutines except this one and those of testing and the runtime.
func others() (left []string) {
	text := make([]byte, 1<<20)
	text = text[:runtime.Stack(text, true)]
	for n, stack := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
		_, below, _ := strings.Cut(stack, "\n")
		ours := n > 0 // the caller's own comes first
		for _, known := range []string{"testing.", "runtime.", "os/signal."} {
			ours = ours && !strings.HasPrefix(below, known)
		}
		if ours {
			left = append(left, stack)
		}
	}
	return left
}

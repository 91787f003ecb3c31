package testkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"
)

func TestServersDieWithTheTestProcess(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	must(t, err)
	// A killed process does not remove its folder, so that the folder lies in this test's own.
	p := StartProcess(t, self, []string{"TESTKIT_CHILD=dying", "TMPDIR=" + t.TempDir()})
	must(t, p.WaitOutput(soon(t), "runs"))
	var pid int
	if _, err := fmt.Sscanf(p.Output(), "redis %d runs", &pid); err != nil {
		t.Fatalf("%v in %q", err, p.Output())
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("its redis-server does not run: %v", err)
	}
	must(t, p.Kill())
	Eventually(t, 10*time.Second, "the end of its redis-server "+strconv.Itoa(pid), func() (bool, string) {
		err := syscall.Kill(pid, 0)
		return errors.Is(err, syscall.ESRCH), fmt.Sprint("kill 0: ", err)
	})
}

func TestServersOutliveTheThreadThatAskedForThem(t *testing.T) {
	t.Parallel()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		type result struct {
			server *Redis
			thread int
			err    error
		}
		results := make(chan result)
		ask := func() {
			runtime.LockOSThread() // a goroutine that ends locked takes its thread with it
			r, err := StartRedis()
			results <- result{r, syscall.Gettid(), err}
		}
		go func() {
			runtime.LockOSThread()
			if syscall.Gettid() != os.Getpid() {
				ask()
				return
			}
			other := make(chan struct{}) // the main thread never ends: this goroutine holds it until ask has another one
			go func() {
				runtime.LockOSThread()
				close(other)
				ask()
			}()
			<-other
			runtime.UnlockOSThread()
		}()
		got := <-results
		must(t, got.err)
		t.Cleanup(got.server.Stop)
		Eventually(t, 10*time.Second, "the end of the thread", func() (bool, string) {
			err := syscall.Tgkill(os.Getpid(), got.thread, 0)
			return errors.Is(err, syscall.ESRCH), fmt.Sprint("tgkill 0: ", err)
		})
		// The kernel sends the signal at the thread's end. A server that got the signal would be dying by now.
		must(t, client(t, got.server.URL()).Ping(context.Background()).Err())
		if !got.server.current().alive() {
			t.Fatal("the server died with the thread")
		}
	})
}

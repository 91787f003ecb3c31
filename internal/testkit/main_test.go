package testkit

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain runs the tests, or plays the dying test process when a test starts it as a child.
func TestMain(m *testing.M) {
	if os.Getenv("TESTKIT_CHILD") == "dying" {
		dyingTestProcess()
	}
	goleak.VerifyTestMain(Main(m))
}

// dyingTestProcess starts a server, prints its pid, and waits to be killed. It locks no thread: the kit itself
// must keep the server alive after the goroutine that started it has ended.
func dyingTestProcess() {
	pids := make(chan int)
	go func() {
		r, err := StartRedis()
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		pids <- r.Pid()
	}()
	fmt.Println("redis", <-pids, "runs")
	select {}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

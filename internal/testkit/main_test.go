package testkit

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain is also the test process that dies, when the tests run it as a child.
func TestMain(m *testing.M) {
	if os.Getenv("TESTKIT_CHILD") == "dying" {
		dyingTestProcess()
	}
	goleak.VerifyTestMain(Main(m))
}

// dyingTestProcess starts a server, tells its pid, and waits for its end. It keeps no thread alive by itself: whether
// the server outlives the goroutine that asked for it is the kit's business.
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

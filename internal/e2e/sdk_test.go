package e2e

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	sdk "github.com/tierq/tierq/client"
	"github.com/tierq/tierq/internal/testkit"
)

// The SDK submits thousands of jobs, gathered and one by one, to a server whose replies are dropped, whose connections
// are cut and that is killed and started again. There are exactly as many jobs as submits.
func TestSDKNeverDoubles(t *testing.T) {
	t.Attr("proves", "S1-P6 F27")
	t.Parallel()
	heavy(t)
	c := newCluster(t)
	addr := fmt.Sprintf("127.0.0.1:%d", testkit.FreePort(t)) // it stays reserved while the server is down
	settings := []string{"TIERQ_CAPACITY=100000", "TIERQ_WORKERS=32", "TIERQ_ADDR=" + addr}
	s := c.start(settings...)
	proxy := testkit.NewTCPProxy(t, addr)
	var clients []*sdk.Client
	for _, gathers := range []bool{false, true} {
		api := sdk.New("http://"+proxy.Addr(), sdk.Gather(gathers), sdk.WithTries(50),
			sdk.WithBackoff(20*time.Millisecond, time.Second))
		defer api.Close()
		clients = append(clients, api)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	const jobs = manyJobs
	ids := make([]string, jobs)
	var next, done atomic.Int64
	var submitters sync.WaitGroup
	for n := range 16 {
		api := clients[n%2]
		submitters.Go(func() {
			for i := next.Add(1) - 1; i < jobs && ctx.Err() == nil; i = next.Add(1) - 1 {
				id, err := api.Submit(ctx, []sdk.Tier{sdk.Paid, sdk.Unpaid, sdk.Public}[i%3], "SIMULATION", map[string]any{})
				if err != nil {
					t.Errorf("submit %d: %v", i, err)
					return
				}
				ids[i] = id
				done.Add(1)
			}
		})
	}
	stop := make(chan struct{})
	var faults sync.WaitGroup
	// One reply per 20 successful submits is dropped. With one per tick, the last submitter would lose every reply.
	faults.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for armed, mark := 0, int64(0); ; {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			if n := done.Load(); n >= mark+20 {
				mark = n
				proxy.DropReply([]string{"/submit HTTP/1.1", "/submit/batch HTTP/1.1"}[armed%2])
				if armed++; armed%20 == 0 {
					proxy.Cut()
				}
			}
		}
	})
	kills := 0
	for kills < 3 { // after a quarter, a half and three quarters of the jobs
		mark := int64(jobs * (kills + 1) / 4)
		testkit.Eventually(t, time.Minute, "a quarter more is submitted",
			func() (bool, string) { return done.Load() >= mark || ctx.Err() != nil, "" })
		if err := s.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		kills++
		s = c.start(settings...)
	}
	submitters.Wait()
	close(stop)
	faults.Wait()
	distinct := map[string]bool{}
	for _, id := range ids {
		distinct[id] = true
	}
	if len(distinct) != jobs || distinct[""] {
		t.Fatalf("%d distinct ids of %d submits", len(distinct), jobs)
	}
	outcomes := c.settled(2*time.Minute, ids...)
	if len(outcomes) != jobs {
		t.Errorf("%d jobs were made by %d submits", len(outcomes), jobs)
	}
	if proxy.Cuts() < 20 {
		t.Errorf("only %d replies were dropped: the test proves little", proxy.Cuts())
	}
	t.Logf("evidence: %d replies dropped after the server had them, %d kills, %d jobs", proxy.Cuts(), kills, len(outcomes))
}

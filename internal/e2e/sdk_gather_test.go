package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/tierq/tierq/client"
	"github.com/tierq/tierq/internal/testkit"
)

// gathered is what one client of TestSDKGathers got: the ids of its accepted jobs, and its errors by their codes.
type gathered struct {
	mu   sync.Mutex
	ids  []string
	errs map[string][]error
}

// submitTogether makes 64 goroutines submit so many jobs each through one client. job returns the nth submit.
func submitTogether(c *sdk.Client, each int, job func(n int) (sdk.Tier, sdk.Submission)) *gathered {
	g := &gathered{errs: map[string][]error{}}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var wait sync.WaitGroup
	for n := range 64 {
		wait.Go(func() {
			for i := range each {
				tier, s := job(n*each + i)
				accepted, err := c.SubmitJob(ctx, tier, s)
				g.mu.Lock()
				if err == nil {
					g.ids = append(g.ids, accepted.JobID)
				} else {
					e, _ := errors.AsType[*sdk.Error](err)
					if e == nil {
						e = &sdk.Error{}
					}
					g.errs[e.Code] = append(g.errs[e.Code], err)
				}
				g.mu.Unlock()
			}
		})
	}
	wait.Wait()
	return g
}

// 64 goroutines submit through one gathering client, to three tiers. Some payloads are bad, the key's quota ends, a
// tier becomes full, and answers to batches are lost. Every refusal is the one that the same submit gets alone, and
// each accepted job runs once.
func TestSDKGathers(t *testing.T) {
	t.Attr("proves", "S1-P6")
	t.Parallel()
	heavy(t)
	const quota, full = 450, 600 // PUBLIC has 60 % of the capacity
	c := newCluster(t)
	s := c.start("TIERQ_ROLES=api", "TIERQ_ADMIN_KEY="+theAdmin, "TIERQ_CAPACITY=1000")
	proxy := testkit.NewTCPProxy(t, strings.TrimPrefix(s.base, "http://"))
	clients := func(fields string) (gathers, plain *sdk.Client) {
		key := s.makeKey(theAdmin, http.MethodPost, "/admin/keys", `{"name":"ann","role":"submit"`+fields+`}`)
		opts := []sdk.Option{sdk.WithToken(key.Key), sdk.WithTries(20),
			sdk.WithBackoff(20*time.Millisecond, 500*time.Millisecond)} // less than any Retry-After
		gathers = sdk.New("http://"+proxy.Addr(), append(opts, sdk.Gather(true))...)
		plain = sdk.New(s.base, opts...)
		t.Cleanup(func() { gathers.Close(); plain.Close() })
		return gathers, plain
	}
	file := filepath.Join(t.TempDir(), "runs")
	good := sdk.Submission{Type: "COUNT", Payload: json.RawMessage(fmt.Sprintf(`{"file":%q,"sleepMs":0}`, file))}
	bad := sdk.Submission{Type: "SEND_EMAIL", Payload: map[string]any{"to": "ada@example.com", "nope": 1}}
	tiers := []sdk.Tier{sdk.Paid, sdk.Unpaid, sdk.Public}

	stop := make(chan struct{})
	var faults sync.WaitGroup
	faults.Go(func() {
		tick := time.NewTicker(30 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			proxy.DropReply("POST /" + strings.ToLower(string(tiers[i%3])) + "/submit/batch HTTP/1.1")
			select {
			case <-stop:
				proxy.Disarm()
				return
			case <-tick.C:
			}
		}
	})
	gathers, plain := clients(fmt.Sprintf(`,"inFlight":%d`, quota))
	ann := submitTogether(gathers, 10, func(n int) (sdk.Tier, sdk.Submission) {
		if n%16 == 3 {
			return tiers[n%3], bad
		}
		return tiers[n%3], good
	})
	close(stop)
	faults.Wait()
	if len(ann.ids) != quota || len(ann.errs["INVALID_PAYLOAD"]) != 40 || len(ann.errs["RATE_LIMITED"]) != 600-quota ||
		len(ann.errs) != 2 {
		t.Errorf("%d accepted, refused: %v", len(ann.ids), counts(ann.errs))
	}
	_, alone := plain.SubmitJob(t.Context(), sdk.Paid, bad)
	sameRefusals(t, alone, ann.errs["INVALID_PAYLOAD"])
	_, alone = plain.SubmitJob(t.Context(), sdk.Paid, good)
	sameRefusals(t, alone, ann.errs["RATE_LIMITED"])

	gathers, plain = clients("")
	bob := submitTogether(gathers, 4, func(int) (sdk.Tier, sdk.Submission) { return sdk.Public, good })
	if len(bob.ids) != full-quota || len(bob.errs["QUEUE_FULL"]) != 256-(full-quota) {
		t.Errorf("%d accepted, refused: %v", len(bob.ids), counts(bob.errs))
	}
	_, alone = plain.SubmitJob(t.Context(), sdk.Public, good)
	sameRefusals(t, alone, bob.errs["QUEUE_FULL"])

	c.start("TIERQ_ROLES=worker,recovery", "TIERQ_ADMIN_KEY="+theAdmin, "TIERQ_CAPACITY=1000")
	ids := append(ann.ids, bob.ids...)
	if outcomes := c.settled(time.Minute, ids...); len(outcomes) != len(ids) {
		t.Errorf("%d jobs were made by %d accepted submits", len(outcomes), len(ids))
	}
	order, marks := executions(t, file)
	if len(order) != len(ids) || len(marks) != len(ids) {
		t.Errorf("%d runs of %d jobs, %d were accepted", len(order), len(marks), len(ids))
	}
	if proxy.Cuts() == 0 {
		t.Error("no answer to a batch was lost: the test proves little")
	}
	t.Logf("evidence: %d answers to batches dropped, %d jobs", proxy.Cuts(), len(ids))
}

func counts(errs map[string][]error) string {
	text := ""
	for code, list := range errs {
		text += fmt.Sprintf("%d %s, such as %v; ", len(list), code, list[0])
	}
	return text
}

// sameRefusals checks that each error is the one that a submit alone got, except for its key and trace id, and for
// what an earlier try whose answer was lost adds.
func sameRefusals(t *testing.T, alone error, list []error) {
	t.Helper()
	want, _ := errors.AsType[*sdk.Error](alone)
	if want == nil {
		t.Fatalf("alone: %v", alone)
	}
	keys := map[string]bool{}
	for _, err := range list {
		e, _ := errors.AsType[*sdk.Error](err)
		if e == nil || e.Key == "" || e.TraceID == "" || keys[e.Key] {
			t.Fatalf("%#v", err)
		}
		keys[e.Key] = true
		got := *e
		got.Key, got.TraceID, got.Unknown = want.Key, want.TraceID, want.Unknown
		if !reflect.DeepEqual(got, *want) {
			t.Fatalf("%#v, alone %#v", got, *want)
		}
	}
}

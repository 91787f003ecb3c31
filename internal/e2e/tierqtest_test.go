package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/tierq/tierq/client"
	"github.com/tierq/tierq/client/tierqtest"
	"github.com/tierq/tierq/internal/testkit"
)

// ends is how a story ends its jobs: as the worker of a server, or as the test of a fake one.
type ends struct {
	begin    func(id string)
	complete func(id string, result any)
	fail     func(id string, err error)
}

// The fake server of client/tierqtest answers a client as a server does, word for word, in what the fake promises.
func TestFakeAnswersAsAServer(t *testing.T) {
	t.Parallel()
	tellBoth(t, story)
}

// tellBoth tells a story to a server and to a fake server, and compares the answers.
func tellBoth(t *testing.T, story func(t *testing.T, c *sdk.Client, e ends) []string) {
	s := startServer(t, testkit.BuildTierq(t), "TIERQ_ADDR=127.0.0.1:0", "TIERQ_DATA_DIR="+t.TempDir())
	s.changes(http.MethodPut, "/admin/queues/pictures", `{"types":["RESIZE"]}`, 200)
	there := sdk.New(s.base)
	defer there.Close()
	leases := map[string]string{}
	want := story(t, there, ends{
		begin: func(id string) {
			for leases[id] == "" { // jobs that a flow releases at the same time come in any order
				got := s.claims("", "w", `"queues":["pictures"],"wait":"10s"`)
				if len(got) != 1 {
					t.Fatalf("claimed %+v, not %s", got, id)
				}
				leases[got[0].JobID] = got[0].Lease
			}
		},
		complete: func(id string, result any) {
			text, err := json.Marshal(result)
			if err != nil {
				t.Fatal(err)
			}
			s.reports("", "complete", leases[id], `,"result":`+string(text))
		},
		fail: func(id string, err error) {
			s.reports("", "fail", leases[id], fmt.Sprintf(`,"error":{"message":%q}`, err.Error()))
		},
	})
	fake := tierqtest.New(t)
	fake.Types("RESIZE")
	got := story(t, fake.Client(), ends{begin: fake.Begin, complete: fake.Complete, fail: fake.Fail})
	for i := range max(len(got), len(want)) {
		g, w := append(got, slices.Repeat([]string{"nothing"}, len(want))...)[i], "nothing"
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Errorf("a server says %s\nthe fake says %s", w, g)
		}
	}
	t.Logf("evidence: %d answers, the last one %s", len(want), want[len(want)-1])
}

// story submits, follows and cancels jobs, and returns what the client learned, one line for each answer.
func story(t *testing.T, c *sdk.Client, e ends) (lines []string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	say := func(what string, v any, err error) {
		text := fmt.Sprintf("%s: %+v", what, v)
		if refused, ok := errors.AsType[*sdk.Error](err); ok {
			text = fmt.Sprintf("%s: %d %s", what, refused.Status, refused.Code)
		} else if err != nil {
			kind, _, _ := strings.Cut(fmt.Sprintf("%T", err), ":")
			text += " " + kind
		}
		lines = append(lines, text)
	}
	submit := func(what string, j sdk.Submission) string {
		j.Type, j.Queue = "RESIZE", "pictures"
		a, err := c.SubmitJob(ctx, sdk.Paid, j)
		say(what, []any{a.Status, a.Replayed, a.Deduplicated, a.Replaced, a.RetryAfter > 0, a.TraceID != ""}, err)
		if taken, ok := errors.AsType[*sdk.Error](err); ok && errors.Is(err, sdk.ErrTaken) {
			return taken.JobID
		}
		return a.JobID
	}
	shown := func(p sdk.Poll) any {
		return []any{p.Status, p.Tier, p.Type, p.RetryCount, p.MaxRetries, string(p.Result), p.FailureCause, p.LastError,
			p.ArrivedAt.IsZero(), p.FirstTriedAt.IsZero(), p.CompletedAt.IsZero(), p.RunAt.IsZero(), p.ETag != ""}
	}
	poll := func(what, id string) { p, err := c.Poll(ctx, id); say("poll of "+what, shown(p), err) }
	wait := func(what, id string) { p, err := c.Wait(ctx, id); say("wait for "+what, shown(p), err) }
	stop := func(what, id string) {
		a, err := c.Cancel(ctx, id)
		say("cancel of "+what, []any{a.Status, a.Requested}, err)
	}

	first := submit("a submit", sdk.Submission{Payload: 1, IdempotencyKey: "k"})
	if again := submit("a repeat", sdk.Submission{Payload: 1, IdempotencyKey: "k"}); again != first {
		t.Errorf("a repeat made %s, not %s", again, first)
	}
	submit("another body", sdk.Submission{Payload: 2, IdempotencyKey: "k"})
	poll("a waiting job", first)
	e.begin(first)
	poll("a running job", first)
	e.complete(first, map[string]int{"width": 2})
	wait("a completed job", first)
	poll("a completed job", first)
	stop("a completed job", first)
	submit("a repeat after the end", sdk.Submission{Payload: 1, IdempotencyKey: "k"})

	zero := 0
	failing := submit("a job without retries", sdk.Submission{MaxRetries: &zero})
	e.begin(failing)
	e.fail(failing, errors.New("boom"))
	wait("a failed job", failing)

	waiting := submit("a job to cancel", sdk.Submission{})
	stop("a waiting job", waiting)
	wait("a cancelled job", waiting)
	stop("a cancelled job", waiting)

	later := submit("a delayed job", sdk.Submission{Delay: time.Hour})
	poll("a delayed job", later)
	stop("a delayed job", later)

	running := submit("a job to cancel while it runs", sdk.Submission{})
	e.begin(running)
	stop("a running job", running)
	poll("a running job with a cancel", running)
	e.complete(running, 1)
	wait("a job that was cancelled while it ran", running)

	uniqueStory(submit, e, poll, stop)
	poll("an unknown job", "019de340-01fe-7a58-be69-ffffffffffff")
	stop("an unknown job", "019de340-01fe-7a58-be69-ffffffffffff")
	entries := []sdk.Submission{{Type: "RESIZE", Queue: "pictures"}, {Type: "RESIEZ"}}
	outcomes, err := c.SubmitBatch(ctx, sdk.Public, entries)
	say("a batch", len(outcomes), err)
	for i, o := range outcomes {
		say(fmt.Sprint("entry ", i), o.Status, o.Err)
	}
	id := outcomes[0].JobID
	var seen []sdk.Status
	p, err := c.Watch(ctx, id, func(p sdk.Poll) {
		switch seen = append(seen, p.Status); p.Status {
		case sdk.Pending:
			e.begin(id)
		case sdk.Processing:
			e.complete(id, "done")
		}
	})
	say("watch", []any{seen, shown(p)}, err)
	return lines
}

// uniqueStory submits jobs with a unique key, on all that there is to do if another job holds the key.
func uniqueStory(submit func(what string, j sdk.Submission) string, e ends, poll, stop func(what, id string)) {
	unique := func(while, on string, payload any) sdk.Submission {
		return sdk.Submission{Payload: payload, Unique: &sdk.Unique{Key: "shop 7", While: while, On: on}}
	}
	same := func(what, got, want string) {
		poll(fmt.Sprintf("%s is the same job: %t", what, got == want), got)
	}
	holder := submit("the holder of a unique key", unique("", "", 1))
	same("on return", submit("on return", unique("", sdk.OnReturn, 2)), holder)
	same("on refuse", submit("on refuse", unique("", sdk.OnRefuse, 3)), holder)
	same("on replace", submit("on replace", unique("", sdk.OnReplace, 4)), holder)
	e.begin(holder)
	held := submit("on replace while it runs", unique("", sdk.OnReplace, 5))
	same("on replace while it runs", held, holder)
	same("on after", submit("on after", unique("", sdk.OnAfter, 6)), held)
	e.complete(holder, 1)
	poll("the next holder", held)
	e.begin(held)
	e.complete(held, 1)
	waiting := submit("a key while waiting", unique(sdk.WhileWaiting, "", 7))
	behind := submit("a job behind it", unique(sdk.WhileWaiting, sdk.OnAfter, 8))
	stop("a HELD job", behind)
	e.begin(waiting)
	next := submit("a free key", unique("", sdk.OnRefuse, 9))
	same("a free key", next, waiting)
	e.complete(waiting, 1)
	stop("the last holder", next)
	timed := unique("", "", 10)
	timed.Unique.Key, timed.Unique.For = "once an hour", time.Hour
	hourly := submit("a key for an hour", timed)
	stop("a key for an hour", hourly)
	same("a key for an hour", submit("a second in this hour", timed), hourly)
}

package attack

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// limits are the attacks by number.
func limits() []Attack {
	return []Attack{
		{ID: "A06", What: "guess keys", try: guessKeys, last: true},
		{ID: "A08", What: "oversized Authorization", try: largeAuthorization},
		{ID: "A21", What: "pages without bounds", try: boundlessPages},
		{ID: "A24", What: "long-polls and streams that are left hanging", try: hungPollers},
		{ID: "A29", What: "a flood of PUBLIC beside PAID", try: flood},
		{ID: "A30", What: "submits of which half are broken off", try: brokenOff},
		{ID: "A42", What: "another X-Forwarded-For with each wrong key", try: spoofedAddresses, last: true},
	}
}

// guess sends wrong keys until one of them is 429, and says how many it took.
func guess(ctx context.Context, t *Target, x *trial, headers func(n int) []string) {
	for n := range 200 {
		a := t.send(ctx, "tq_"+idOf(t.alice)+"_"+fmt.Sprintf("%043d", n), "GET", "/api/stats", "", headers(n)...)
		x.want("a wrong key", a, "401 UNAUTHORIZED", "429 RATE_LIMITED")
		if a.status == 429 {
			if a.header.Get("Retry-After") == "" {
				x.fail("429 without Retry-After")
			}
			if good := t.send(ctx, t.admin, "GET", "/api/stats", ""); good.status != 200 {
				x.fail("a right key from the same address: %s", good)
			}
			return
		}
	}
	x.fail("200 wrong keys, and never 429")
}

func guessKeys(ctx context.Context, t *Target, x *trial) {
	guess(ctx, t, x, func(int) []string { return nil })
}

func spoofedAddresses(ctx context.Context, t *Target, x *trial) {
	guess(ctx, t, x, func(n int) []string {
		at := fmt.Sprintf("203.0.113.%d", n)
		return []string{"X-Forwarded-For", at, "X-Real-IP", at, "Forwarded", "for=" + at, "True-Client-IP", at, "CF-Connecting-IP", at}
	})
}

func largeAuthorization(ctx context.Context, t *Target, x *trial) {
	for _, n := range []int{64 << 10, 1 << 20} {
		x.want(fmt.Sprintf("Authorization of %d KiB", n>>10), t.raw(ctx,
			"GET /api/stats HTTP/1.1\r\nHost: "+t.host+"\r\nAuthorization: Bearer "+strings.Repeat("A", n)+"\r\n\r\n"), "431", "closed")
	}
	x.want("Authorization of 8 KiB", t.send(ctx, strings.Repeat("A", 8<<10), "GET", "/api/stats", ""), "401 UNAUTHORIZED")
}

func boundlessPages(ctx context.Context, t *Target, x *trial) {
	for _, target := range []string{
		"/admin/jobs?limit=1000000000", "/admin/jobs?limit=-1", "/admin/jobs?limit=0", "/admin/dead?limit=1e9", "/api/jobs?limit=101",
		"/jobs/dead?size=1000000000", "/jobs/dead?page=-1", "/admin/audit?limit=1000000000",
		"/api/stats?days=1000000000", "/admin/dead?from=x", "/admin/jobs?offset=1000000000",
	} {
		x.want(target, t.send(ctx, t.admin, "GET", target, ""), "400 INVALID_REQUEST")
	}
	far := t.send(ctx, t.admin, "GET", "/jobs/dead?page=1000000000&size=100", "")
	x.want("/jobs/dead?page=1000000000", far, "200", "400 INVALID_REQUEST")
	x.want("requeue 1e9", t.send(ctx, t.admin, "POST", "/admin/dead/requeue", `{"limit":1000000000,"dryRun":true}`), "400 INVALID_REQUEST")
}

// crowd does the same many times at once.
func crowd(n int, do func(n int)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { do(i) })
	}
	group.Wait()
}

func hungPollers(ctx context.Context, t *Target, x *trial) {
	ctx, leave := context.WithCancel(ctx)
	id := t.submit(ctx, t.alice, `{"delaySeconds":600}`)
	began := make(chan struct{})
	var hanging sync.WaitGroup
	hanging.Go(func() {
		crowd(300, func(n int) {
			path := "/result/poll?jobId=" + id + "&wait=60s"
			if n%2 == 1 {
				path = "/api/jobs/" + id + "/events"
			}
			conn, err := t.dial(ctx)
			if err != nil {
				return
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, t.request("GET", path))
			if n == 299 {
				close(began)
			}
			<-ctx.Done()
		})
	})
	select {
	case <-began:
	case <-time.After(10 * time.Second):
	}
	x.note("300 long-polls and streams", "they hang")
	x.served(ctx)
	a := t.send(ctx, t.alice, "DELETE", "/api/jobs/"+id, "")
	x.want("the job they wait for is cancelled", a, "200")
	leave()
	hanging.Wait()
}

func flood(ctx context.Context, t *Target, x *trial) {
	ctx, over := context.WithCancel(ctx)
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for ctx.Err() == nil {
				if a := t.once(ctx, t.public, "POST", "/public/submit", ""); a.err == nil {
					x.note("POST /public/submit as fast as it goes", a.String())
				}
			}
		})
	}
	for range 20 {
		<-time.After(50 * time.Millisecond)
		x.served(ctx)
	}
	over()
	group.Wait()
}

func brokenOff(ctx context.Context, t *Target, x *trial) {
	x.served(ctx) // whatever closed the gate before
	crowd(200, func(n int) {
		conn, err := t.dial(ctx)
		if err != nil {
			return
		}
		body := `{"payload":"` + strings.Repeat("x", 1000) + `"}`
		text := t.request("POST", "/paid/submit", "Content-Type: application/json", fmt.Sprint("Content-Length: ", len(body))) + body
		if n%2 == 0 {
			text = text[:len(text)-500] // the server waits for the rest
		}
		_, _ = io.WriteString(conn, text)
		_ = conn.Close()
		x.note("a submit whose sender leaves", "nobody listens")
	})
	x.want("the gate", t.once(ctx, "", "GET", "/readyz", ""), "200")
}

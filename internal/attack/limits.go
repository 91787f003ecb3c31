package attack

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// limits returns the attacks by number and size.
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

// One address may send so many wrong keys at once, and so many per second.
const (
	wrongAtOnce    = 20
	wrongPerSecond = 1
)

// guess sends a thousand wrong keys, fifty at a time. The server may answer 401 only as often as one address may
// send wrong keys, always with the same words, and has to answer 429 to the others. A right key passes meanwhile.
func guess(ctx context.Context, t *Target, x *trial, headers func(n int) []string) {
	const guesses, hands = 1000, 50
	var mu sync.Mutex
	var first *answer
	wrong, refused := 0, 0
	hear := func(a answer) {
		mu.Lock()
		defer mu.Unlock()
		switch a.status {
		case 429:
			refused++
			if a.header.Get("Retry-After") == "" {
				x.fail("429 without Retry-After")
			}
		case 401:
			if wrong++; first == nil {
				first = &a
			}
			if !same(a, *first) {
				x.fail("a wrong key is told from others: %s", a.body)
			}
		}
	}
	begun := time.Now()
	crowd(hands, func(hand int) {
		for n := hand; n < guesses; n += hands {
			a := t.send(ctx, "tq_"+idOf(t.alice)+"_"+fmt.Sprintf("%043d", n), "GET", "/api/stats", "", headers(n)...)
			x.want("a wrong key", a, "401 UNAUTHORIZED", "429 RATE_LIMITED")
			hear(a)
		}
		if good := t.send(ctx, t.admin, "GET", "/api/stats", ""); good.status != 200 {
			x.fail("a right key from the same address: %s", good)
		}
	})
	most := wrongAtOnce + int(time.Since(begun).Seconds()*wrongPerSecond) + 1
	// If Redis was too slow once, there are two counts: Redis' and the process' own.
	if t.log != nil && strings.Contains(t.log(), "this process counts for itself") {
		most *= 2
	}
	if refused == 0 || wrong > most {
		x.fail("of %d wrong keys %d were 401, where %d may be, and %d 429", guesses, wrong, most, refused)
	}
}

func guessKeys(ctx context.Context, t *Target, x *trial) {
	guess(ctx, t, x, func(int) []string { return nil })
}

func spoofedAddresses(ctx context.Context, t *Target, x *trial) {
	guess(ctx, t, x, func(n int) []string {
		at := fmt.Sprintf("198.51.%d.%d", n/250, n%250+1)
		return []string{"X-Forwarded-For", at, "X-Real-IP", at, "Forwarded", "for=" + at, "True-Client-IP", at,
			"CF-Connecting-IP", at}
	})
}

func largeAuthorization(ctx context.Context, t *Target, x *trial) {
	for _, n := range []int{64 << 10, 1 << 20} {
		x.want(fmt.Sprintf("Authorization of %d KiB", n>>10), t.raw(ctx,
			"GET /api/stats HTTP/1.1\r\nHost: "+t.host+"\r\nAuthorization: Bearer "+strings.Repeat("A", n)+"\r\n\r\n"), "431",
			"closed")
	}
	x.want("Authorization of 8 KiB", t.send(ctx, strings.Repeat("A", 8<<10), "GET", "/api/stats", ""), "401 UNAUTHORIZED")
}

func boundlessPages(ctx context.Context, t *Target, x *trial) {
	for _, target := range []string{
		"/admin/jobs?limit=1000000000", "/admin/jobs?limit=-1", "/admin/jobs?limit=0", "/admin/dead?limit=1e9",
		"/api/jobs?limit=101",
		"/jobs/dead?size=1000000000", "/jobs/dead?page=-1", "/admin/audit?limit=1000000000",
		"/api/stats?days=1000000000", "/admin/dead?from=x", "/admin/jobs?offset=1000000000",
	} {
		x.want(target, t.send(ctx, t.admin, "GET", target, ""), "400 INVALID_REQUEST")
	}
	far := t.send(ctx, t.admin, "GET", "/jobs/dead?page=1000000000&size=100", "")
	x.want("/jobs/dead?page=1000000000", far, "400 INVALID_REQUEST")
	x.want("requeue 1e9", t.send(ctx, t.admin, "POST", "/admin/dead/requeue", `{"limit":1000000000,"dryRun":true}`),
		"400 INVALID_REQUEST")
}

// crowd calls do n times at once and waits for all.
func crowd(n int, do func(n int)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { do(i) })
	}
	group.Wait()
}

// hungPollers leaves long-polls and streams hanging and checks that they do hang: a stream begins, and a poll gets
// no answer before the event that it waits for.
func hungPollers(ctx context.Context, t *Target, x *trial) {
	const n = 300
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	id := t.submit(ctx, t.alice, `{"delaySeconds":600}`)
	var streams, polls, early atomic.Int64
	var over atomic.Bool // the job was cancelled
	var hanging, asked sync.WaitGroup
	hang := func(conn net.Conn, stream bool) {
		path := "/result/poll?jobId=" + id + "&wait=60s"
		if stream {
			path = "/api/jobs/" + id + "/events"
		}
		_ = conn.SetDeadline(time.Now().Add(bound)) // a broken connection ends the read
		_, _ = io.WriteString(conn, t.request("GET", path))
		line, _ := bufio.NewReader(conn).ReadString('\n') // empty, or only a part, if the connection ends
		switch {
		case !strings.HasPrefix(line, "HTTP/1.1 200 "):
		case stream:
			streams.Add(1)
		case over.Load():
			polls.Add(1)
		default:
			early.Add(1)
		}
	}
	for i := range n {
		conn, err := t.dial(ctx)
		if err != nil {
			break
		}
		stream := i%2 == 1
		if !stream {
			asked.Add(1)
		}
		hanging.Go(func() {
			defer conn.Close()
			hang(conn, stream)
			if stream {
				<-ctx.Done()
			} else {
				asked.Done()
			}
		})
	}
	for end := time.Now().Add(10 * time.Second); streams.Load() < n/2 && time.Now().Before(end); {
		<-time.After(50 * time.Millisecond)
	}
	x.served(ctx)
	over.Store(true)
	a := t.send(ctx, t.alice, "DELETE", "/api/jobs/"+id, "")
	x.want("the job they wait for is cancelled", a, "200")
	asked.Wait()
	leave()
	hanging.Wait()
	x.note(fmt.Sprintf("%d long-polls and streams", n), fmt.Sprintf("%d and %d hung", polls.Load(), streams.Load()))
	// A busy server may refuse some (503). Most of them have to hang, or the attack was not tried.
	if hung := polls.Load() + streams.Load(); t.own() && hung < n/2 || early.Load() > 0 {
		x.fail("of %d long-polls and streams %d hung, and %d were answered before there was something to say", n, hung,
			early.Load())
	}
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
	x.served(ctx) // an earlier attack may have closed the gate
	before := 0
	if t.log != nil {
		before = len(t.log())
	}
	crowd(200, func(n int) {
		conn, err := t.dial(ctx)
		if err != nil {
			return
		}
		body := `{"payload":"` + strings.Repeat("x", 1000) + `"}`
		text := t.request("POST", "/paid/submit", "Content-Type: application/json",
			fmt.Sprint("Content-Length: ", len(body))) + body
		if n%2 == 0 {
			text = text[:len(text)-500] // the server waits for the rest
		}
		_, _ = io.WriteString(conn, text)
		_ = conn.Close()
		x.note("a submit whose sender leaves", "nobody listens")
	})
	if t.log == nil {
		x.want("the gate", t.once(ctx, "", "GET", "/readyz", ""), "200")
		return
	}
	x.want("the gate", t.send(ctx, "", "GET", "/readyz", ""), "200")
	for line := range strings.Lines(t.log()[before:]) { // a busy machine may close the gate for another reason
		if strings.Contains(line, "gate closed") && strings.Contains(line, "cancel") {
			x.fail("those who left closed the gate: %s", line)
		}
	}
}

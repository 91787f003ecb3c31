package attack

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// trial is an attack under way: what was sent, what came back, and what should not have.
type trial struct {
	target *Target

	mu     sync.Mutex
	sent   []string
	counts map[string]int // of what came back
	wrong  []string
	unwell time.Duration // for which an honest caller was told to come again
	absent string        // why it cannot be tried on this target
}

// want notes an answer, and that it is none of those wanted: each "404" or "404 JOB_NOT_FOUND". what is what was sent,
// in few words.
func (x *trial) want(what string, a answer, wanted ...string) {
	back := a.String()
	ok := slices.ContainsFunc(wanted, func(w string) bool { return back == w || strings.HasPrefix(back, w+" ") })
	x.note(what, back)
	if !ok {
		x.fail("%s: %s, want %s", what, back, strings.Join(wanted, " or "))
	}
	if told := a.indiscreet(); told != "" {
		x.fail("%s: the answer %s", what, told)
	}
}

// note says that something was sent and came back.
func (x *trial) note(what, back string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.counts == nil {
		x.counts = map[string]int{}
	}
	x.sent, x.counts[back] = append(x.sent, what), x.counts[back]+1
}

// fail says that something is broken.
func (x *trial) fail(format string, a ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.wrong = append(x.wrong, fmt.Sprintf(format, a...))
}

// dwell is how long a gate that closed stays closed at least.
const dwell = 2 * time.Second

// served wants that an honest caller is served soon, whatever goes on. A gate may close once, as on a busy machine: a
// server that is not there again soon, or goes again and again, does not serve.
func (x *trial) served(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, busy+2*x.target.patience)
	defer cancel()
	x.target.client.CloseIdleConnections() // one that idles may end at any moment, and a POST over it is not sent again
	for end, cut := time.Now().Add(busy), 0; ; {
		begun := time.Now()
		a := x.target.once(ctx, x.target.alice, "POST", "/paid/submit", "")
		took := time.Since(begun)
		switch {
		case a.status == 202 && took <= x.target.patience:
			return
		case a.String() == "closed" && cut < 3: // a new connection may have to make room; who is honest comes again
			cut++
		case !a.unhealthy() || time.Now().After(end):
			x.fail("an honest submit: %s (%v) after %s", a, a.err, took.Round(time.Millisecond))
			return
		}
		<-time.After(250 * time.Millisecond)
		if !a.unhealthy() {
			continue
		}
		x.mu.Lock()
		x.unwell += time.Since(begun)
		unwell := x.unwell
		x.mu.Unlock()
		if unwell > x.target.patience+dwell {
			x.fail("honest submits: %s for %s in all", a, unwell.Round(time.Millisecond))
			return
		}
	}
}

func (x *trial) result() Result {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.absent != "" {
		return Result{Verdict: Absent, Why: x.absent}
	}
	r := Result{Verdict: Held}
	if len(x.sent) > 0 {
		r.Sent = onLine(x.sent[0])
		if n := len(x.sent) - 1; n > 0 {
			r.Sent += fmt.Sprintf(" and %d more", n)
		}
	}
	var back []string
	for text, n := range x.counts {
		back = append(back, fmt.Sprintf("%d x %s", n, text))
	}
	slices.Sort(back)
	r.Back = strings.Join(back[:min(len(back), 3)], ", ")
	if len(back) > 3 {
		r.Back += ", ..."
	}
	if len(x.wrong) > 0 {
		r.Verdict = Broken
		r.Why = onLine(strings.Join(x.wrong[:min(len(x.wrong), 5)], "; "))
		if n := len(x.wrong) - 5; n > 0 {
			r.Why += fmt.Sprintf("; and %d more", n)
		}
	}
	return r
}

// onLine is a text for a table: what was sent may have line breaks, and worse.
func onLine(text string) string { return strings.Trim(strconv.Quote(text), `"`) }

// inner are texts that only the inside of a server knows.
var inner = regexp.MustCompile(`goroutine \d|\.go:\d|runtime ` +
	`error|\b(httpapi|queue|archive|handlers|jsontext|strconv|gorm|redis)\.[A-Z]|SELECT |INSERT |Error ` +
	`1\d\d\d|WRONGTYPE|NOSCRIPT|tq_[a-z2-7]{16}_|/internal/`)

// indiscreet says what an answer should not have told, or lacks, "" if nothing: an error has one shape, every answer
// its headers.
func (a answer) indiscreet() string {
	if a.err != nil || a.status < 400 {
		return ""
	}
	text := string(a.body)
	if m := inner.FindString(text); m != "" {
		return "says " + m
	}
	if a.bare { // net/http's own, before any handler: a request that cannot be read, or is too large
		return ""
	}
	if a.header.Get("Content-Type") != "application/problem+json" || a.code() == "" {
		return "is not in the one error shape: " + text[:min(len(text), 80)]
	}
	if a.header.Get("X-Content-Type-Options") != "nosniff" || a.header.Get("Content-Security-Policy") == "" {
		return "lacks the security headers"
	}
	return ""
}

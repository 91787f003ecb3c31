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

// trial is an attack under way: what was sent, what came back, and what is wrong with it. Several goroutines may
// use it.
type trial struct {
	target *Target

	mu     sync.Mutex
	sent   []string
	counts map[string]int // by answer, as text
	wrong  []string
	unwell time.Duration // how long honest callers were told to come again
	absent string        // why the attack cannot be tried on this target
}

// want records an answer, and a failure if the answer is none of those wanted. Each of these is a text such as
// "404" or "404 JOB_NOT_FOUND". what says in few words what was sent. want also fails if the answer tells too
// much.
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

// note records what was sent and what came back.
func (x *trial) note(what, back string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.counts == nil {
		x.counts = map[string]int{}
	}
	x.sent, x.counts[back] = append(x.sent, what), x.counts[back]+1
}

// fail records that something is broken.
func (x *trial) fail(format string, a ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.wrong = append(x.wrong, fmt.Sprintf(format, a...))
}

// dwell is the shortest time for which a closed gate stays closed.
const dwell = 2 * time.Second

// served checks that an honest caller is served soon. On a busy machine the gate may close once. A server whose
// gate stays closed, or closes again and again, is not serving.
func (x *trial) served(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, busy+2*x.target.patience)
	defer cancel()
	x.target.client.CloseIdleConnections() // an idle connection may end, and a POST is not sent again
	for end, cut := time.Now().Add(busy), 0; ; {
		begun := time.Now()
		a := x.target.once(ctx, x.target.alice, "POST", "/paid/submit", "")
		took := time.Since(begun)
		switch {
		case a.status == 202 && took <= x.target.patience:
			return
		case a.String() == "closed" && cut < 3: // a new connection may be closed to make room; an honest caller tries again
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

// onLine returns a text quoted for a table, because what was sent may have line breaks and control characters.
func onLine(text string) string { return strings.Trim(strconv.Quote(text), `"`) }

// inner matches texts that come from the inside of a server only.
var inner = regexp.MustCompile(`goroutine \d|\.go:\d|runtime ` +
	`error|\b(httpapi|queue|archive|handlers|jsontext|strconv|gorm|redis)\.[A-Z]|SELECT |INSERT |Error ` +
	`1\d\d\d|WRONGTYPE|NOSCRIPT|tq_[a-z2-7]{16}_|/internal/`)

// indiscreet returns what is wrong with an error's answer: it tells something internal, does not have the one
// error shape, or lacks the security headers. "" = nothing is wrong.
func (a answer) indiscreet() string {
	if a.err != nil || a.status < 400 {
		return ""
	}
	text := string(a.body)
	if m := inner.FindString(text); m != "" {
		return "says " + m
	}
	if a.bare { // net/http answers by itself to a request that it cannot read, or that is too large
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

package faktory

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// What is wrong with a job is told in the words of Faktory's server.
func TestReadJob_Refused(t *testing.T) {
	for text, want := range map[string]string{
		`{"jid":"1234567","jobtype":"T","args":[]}`:                      "jobs must have a reasonable jid parameter",
		`{"jobtype":"T","args":[]}`:                                      "jobs must have a reasonable jid parameter",
		`{"jid":"` + strings.Repeat("x", 201) + `"}`:                     "jobs must have a reasonable jid parameter: at most 200 bytes",
		`{"jid":"12345678","args":[]}`:                                   "jobs must have a jobtype parameter",
		`{"jid":"12345678","jobtype":"T"}`:                               "jobs must have an args parameter",
		`{"jid":"12345678","jobtype":"T","args":null}`:                   "jobs must have an args parameter",
		`{"jid":"12345678","jobtype":"T","args":{}}`:                     "invalid JSON: args is not an array",
		`{"jid":"12345678","jobtype":"T","args":[],"reserve_for":86401}`: "jobs cannot be reserved for more than one day",
		`{"jid":"12345678","jobtype":"1","args":[]}`:                     "invalid jobtype: a job type " + job.ForeignTypeNameRule,
		`{"jid":"12345678","jobtype":"a b","args":[]}`:                   "invalid jobtype: a job type " + job.ForeignTypeNameRule,
		`{"jid":"12345678","jobtype":"T","args":[]} {}`:                  "invalid JSON: ",
		`{"jid":12345678,"jobtype":"T","args":[]}`:                       "invalid JSON: ",
		`{"jid":"12345678","jobtype":"T","args":[],"retry":"no"}`:        "invalid JSON: ",
		`{"jid":"12345678","jobtype":"T","args":[],"enqueued_at":7}`:     "invalid JSON: ",
		`{"jid":"12345678","jobtype":"T","args":[],"failure":7}`:         "invalid JSON: ",
		`{"jid":"12345678","jobtype":"T","args":[],"custom":7}`:          "invalid JSON: ",
		`nope`: "invalid JSON: ",
		"{\"jid\":\"12345678\",\"jobtype\":\"T\",\"args\":[\"\xff\"]}":       "invalid JSON: it is not UTF-8",
		`{"args":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`: "invalid JSON: it is nested deeper than 32 levels",
	} {
		if _, err := readJob([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.80s: %v, want %s", text, err, want)
		}
	}
}

// The defaults of a job, and the bounds of what it may ask for.
func TestReadJob(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, one := range []struct {
		members, queue, tier string
		retries              int
		reserve              time.Duration
		at                   time.Time
		bad                  string
	}{
		{members: ``, queue: "default", retries: 2, reserve: 30 * time.Minute},
		{members: `,"queue":"bulk","retry":1`, queue: "bulk", retries: 1, reserve: 30 * time.Minute},
		{members: `,"retry":0,"reserve_for":1`, queue: "default", reserve: time.Minute},
		{members: `,"retry":-1,"reserve_for":0`, queue: "default", reserve: 30 * time.Minute},
		{members: `,"retry":25,"reserve_for":86400`, queue: "default", retries: 2, reserve: 24 * time.Hour},
		{members: `,"retry":null,"priority":5,"custom":{"tier":"paid","unique_for":9}`, queue: "default", tier: "paid",
			retries: 2, reserve: 30 * time.Minute},
		{members: `,"custom":{"tier":7}`, queue: "default", retries: 2, reserve: 30 * time.Minute},
		{members: `,"custom":null,"backtrace":10`, queue: "default", retries: 2, reserve: 30 * time.Minute},
		{members: `,"at":"2026-05-01T12:00:01.5Z"`, queue: "default", retries: 2, reserve: 30 * time.Minute,
			at: now.Add(1500 * time.Millisecond)},
		{members: `,"at":"2026-05-01T11:59:59Z"`, queue: "default", retries: 2, reserve: 30 * time.Minute},
		{members: `,"at":"tomorrow"`, queue: "default", retries: 2, reserve: 30 * time.Minute,
			bad: `invalid timestamp for 'at': "tomorrow": `},
		{members: `,"at":"2028-05-01T11:59:59Z"`, queue: "default", retries: 2, reserve: 30 * time.Minute,
			bad: "invalid timestamp for 'at': "},
	} {
		p, err := readJob([]byte(`{"jid":"12345678","jobtype":"Foo::Bar","args":[1]` + one.members + `}`))
		if err != nil {
			t.Errorf("%s: %v", one.members, err)
			continue
		}
		at, err := p.runAt(now)
		if one.bad != "" {
			if err == nil || !strings.HasPrefix(err.Error(), one.bad) {
				t.Errorf("%s: %v", one.members, err)
			}
			continue
		}
		unpaid := job.DefaultPlans()[1]
		if err != nil || !at.Equal(one.at) || p.Queue != one.queue || p.tier() != one.tier ||
			p.retries(unpaid) != one.retries || p.reserve() != one.reserve {
			t.Errorf("%s: at %v %v, queue %s, tier %s, retries %d, reserve %s", one.members, at, err, p.Queue, p.tier(),
				p.retries(unpaid), p.reserve())
		}
	}
}

// A worker gets its job byte for byte as it was pushed, and behind it what the server tells.
func TestComplete(t *testing.T) {
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	const pushed = `{"jid":"12345678","jobtype":"T" , "args":[1.0,1e3,12345678901234567890,"\u00e9<"],"failure":{"x":1}}`
	l := &job.Lease{Job: job.Job{ArrivedAt: at, Payload: []byte(pushed + " ")}}
	jid, text, p := jidOf(l)
	got := string(complete(text, &p, l, nil))
	want := strings.TrimSuffix(pushed, "}") + `,"created_at":"2026-05-01T12:00:00Z","enqueued_at":"2026-05-01T12:00:00Z"}`
	if jid != "12345678" || got != want {
		t.Errorf("%s: %s, want %s", jid, got, want)
	}
	l.RunAt = at.Add(time.Minute)
	got = string(complete(text, &p, l, &failure{RetryCount: 1, Remaining: 4, Message: "m"}))
	var read struct {
		Enqueued string `json:"enqueued_at"`
		Failure  struct {
			Retries int    `json:"retry_count"`
			Message string `json:"message"`
		} `json:"failure"`
	}
	if err := json.Unmarshal([]byte(got), &read); err != nil || read.Enqueued != "2026-05-01T12:01:00Z" ||
		read.Failure.Retries != 1 || read.Failure.Message != "m" {
		t.Errorf("%s: %+v, %v", got, read, err)
	}
}

// A job of a client that does not speak Faktory's protocol has its payload as the only argument.
func TestComplete_OfAnotherClient(t *testing.T) {
	for payload, args := range map[string]string{
		`{"width":2}`: `[{"width":2}]`, ``: `[null]`, `[1]`: `[[1]]`, `"x"`: `["x"]`,
		`[{"jid":"12345678","jobtype":"T","args":[]}]`: `[[{"jid":"12345678","jobtype":"T","args":[]}]]`,
	} {
		l := &job.Lease{Job: job.Job{ID: "the-id", Type: "RESIZE", Payload: []byte(payload), Options: job.Options{Queue: "q"}}}
		jid, text, p := jidOf(l)
		var read struct {
			Jid, Queue, Jobtype string
			Args                json.RawMessage
		}
		err := json.Unmarshal(complete(text, &p, l, nil), &read)
		if err != nil || jid != "the-id" || read.Jid != jid || read.Queue != "q" || read.Jobtype != "RESIZE" ||
			string(read.Args) != args {
			t.Errorf("%s: %+v, %v", payload, read, err)
		}
	}
}

// The text of an error is read again as it was reported.
func TestErrorText(t *testing.T) {
	typ, message, trace := readError(errorText("Foo::Error", "it: broke\nhere", []string{"a:1", "b:2"}))
	if typ != "Foo::Error" || message != "it: broke here" || !slices.Equal(trace, []string{"a:1", "b:2"}) {
		t.Errorf("%q %q %q", typ, message, trace)
	}
	if typ, message, _ := readError("no type"); typ != "" || message != "no type" {
		t.Errorf("%q %q", typ, message)
	}
}

func TestTierOf(t *testing.T) {
	s := &Server{Config: Config{Deps: Deps{Plans: newWorld(t)}, Tiers: []Route{
		{"critical", job.Paid}, {"bulk*", job.Public}, {"gold", "GOLD"},
	}}}
	for _, one := range []struct{ named, queue, want string }{
		{"", "critical", "PAID"}, {"", "critical2", "UNPAID"}, {"", "bulk", "PUBLIC"}, {"", "bulk.x", "PUBLIC"},
		{"", "paid", "PAID"}, {"", "paid.images", "PAID"}, {"", "public-images", "PUBLIC"}, {"", "paidimages", "UNPAID"},
		{"", "Paid", "UNPAID"}, {"", "default", "UNPAID"},
		{"paid", "bulk", "PAID"}, {"PUBLIC", "critical", "PUBLIC"},
		{"gold", "default", "no such tier: gold"}, {"", "gold", "no such tier: GOLD, which TIERQ_FAKTORY_QUEUES names"},
	} {
		tier, err := s.tierOf(one.named, one.queue)
		if err != nil && err.Error() != one.want || err == nil && string(tier) != one.want {
			t.Errorf("%+v: %s, %v", one, tier, err)
		}
	}
}

func TestGlob(t *testing.T) {
	for _, one := range []struct {
		pattern, text string
		fits          bool
	}{
		{"*", "", true}, {"", "", true}, {"", "x", false}, {"*uid:12*", `{"uid:123"}`, true}, {"uid", "a uid", false},
		{"a?c", "abc", true}, {"a?c", "ac", false}, {"[a-c]x", "bx", true}, {"[^a-c]x", "bx", false},
		{"[^a-c]x", "dx", true},
		{`a\*`, "a*", true}, {`a\*`, "ab", false}, {"a**b", "axxb", true}, {"*a*b*c", "xaxbxc", true},
		{"*a*b*c", "xaxcxb", false},
		{"[abc", "b", true}, {"[]", "x", false}, {`[\]]`, "]", true}, {"[c-a]", "b", true}, {`\`, `\`, true},
		{strings.Repeat("a", 1001), strings.Repeat("a", 1001), false},
	} {
		if got := glob(one.pattern, one.text); got != one.fits {
			t.Errorf("%q %q: %v", one.pattern, one.text, got)
		}
	}
}

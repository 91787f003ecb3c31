package job

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

// A queue that pushes is stored and read as it was. A text of an earlier version is a queue that does not push, and an
// earlier version reads the rest of a text that has a push.
func TestQueueText_Push(t *testing.T) {
	for _, q := range []Queue{
		{Name: "a", Push: Push{URL: "https://x.example/jobs?a=b&c"}, Version: 1},
		{Name: "a", Limit: 5, Types: []string{"A"}, MaxRun: time.Minute, Version: 7,
			Push: Push{URL: "http://x.example/", Permanent4xx: true, Concurrency: 1000, Key: "abcdefghijklmnop"}},
		{Name: "a", Version: 2}, {Name: "a", LogsOff: true, Version: 4},
	} {
		got, err := ReadQueue("a", q.Text())
		if err != nil || !got.Equal(q) || got.Push != q.Push {
			t.Errorf("%s: %+v, %v", q.Text(), got, err)
		}
		if strings.Contains(q.Text(), "push") != q.Push.On() {
			t.Errorf("%+v is %s", q, q.Text())
		}
		var earlier struct {
			Limit   int   `json:"limit"`
			Version int64 `json:"version"`
		}
		if err := json.Unmarshal([]byte(q.Text()), &earlier); err != nil || earlier.Limit != q.Limit ||
			earlier.Version != q.Version {
			t.Errorf("%+v, %v", earlier, err)
		}
	}
	old, err := ReadQueue("a", `{"limit":5,"version":3}`)
	if err != nil || old.Push.On() || old.Limit != 5 {
		t.Errorf("%+v, %v", old, err)
	}
	if old.LogsOff || (Queue{LogsOff: true}).Equal(Queue{}) {
		t.Error("the logs of an old text are off, or a queue without logs is equal to one with logs")
	}
	if a, b := (Queue{Push: Push{URL: "x"}}), (Queue{Push: Push{URL: "y"}}); a.Equal(b) {
		t.Error("two URLs are equal")
	}
}

func TestPush_Check(t *testing.T) {
	const url = "https://x.example/"
	for want, pushes := range map[string][]Push{
		"": {{}, {URL: url}, {URL: url, Concurrency: 1}, {URL: url, Concurrency: MaxPushConcurrency, Permanent4xx: true},
			{URL: url, Key: "aaaaaaaaaaaaaaa7"}},
		"push.url is missing": {{Permanent4xx: true}, {Concurrency: 3}, {Key: "aaaaaaaaaaaaaaa7"}},
		"push.url must be": {{URL: "https://x.example/ "}, {URL: "https://ü.example/"},
			{URL: url + strings.Repeat("a", 2048)}},
		"push.concurrency must": {{URL: url, Concurrency: -1}, {URL: url, Concurrency: MaxPushConcurrency + 1}},
		"push.key must":         {{URL: url, Key: "short"}, {URL: url, Key: "AAAAAAAAAAAAAAA7"}},
	} {
		for _, p := range pushes {
			err := Queue{Name: "a", Push: p}.Check()
			if (err == nil) != (want == "") || err != nil && (!errors.Is(err, ErrBadQueue) ||
				!strings.Contains(err.Error(), want)) {
				t.Errorf("%+v: %v, want %q", p, err, want)
			}
		}
	}
	if (Push{}).AtOnce() != 10 || (Push{Concurrency: 3}).AtOnce() != 3 {
		t.Error("the concurrency is another")
	}
}

// The beginning of a result that is too long ends the job, whatever the limit.
func TestDecide_Cut(t *testing.T) {
	e := Decide(Report{Result: []byte("1"), Cut: true}, 100, time.Second)
	if e.Verb != Fails || e.Cause != ResultTooLarge || !e.Final || e.Text != "the result has more than 100 bytes, "+
		"which is the limit" {
		t.Errorf("%+v", e)
	}
}

package httpapi

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// A declaration may say where the queue's jobs are posted: what it says is stored, after the guard has looked at the
// URL, and the key was found.
func TestQueues_Push(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]job.Push{
		`{"push":{"url":"https://x.example/jobs?a=b"}}`: {URL: "https://x.example/jobs?a=b"},
		`{"push":null}`: {},
		`{"push":{"url":"https://x.example/","permanent4xx":true,"concurrency":1000,"key":"` + knownKey + `"}}`: {
			URL: "https://x.example/", Permanent4xx: true, Concurrency: 1000, Key: knownKey},
		`{"push":{"url":"https://x.example/","permanent4xx":null,"concurrency":null,"key":null}}`: {
			URL: "https://x.example/"},
	} {
		r := newRooms(t)
		r.ring.keys = []job.Key{{ID: knownKey, Role: job.RoleWorker}}
		rec := r.json("PUT", "/admin/queues/films", body)
		stores := fmt.Sprintf("store %+v, if -1", job.Queue{Name: "films", Push: want})
		if rec.Code != 200 || !slices.Equal(r.queues.asked, []string{stores}) {
			t.Errorf("%s: %d %s, %q, want %q", body, rec.Code, rec.Body, r.queues.asked, stores)
		}
		if strings.Contains(rec.Body.String(), `"push":null`) == want.On() {
			t.Errorf("%s: %s", body, rec.Body)
		}
	}
	for body, field := range map[string]string{
		`{"push":{}}`:                                                    "push.url",
		`{"push":{"concurrency":5}}`:                                     "push.url",
		`{"push":"https://x.example/"}`:                                  "push",
		`{"push":{"url":7}}`:                                             "push.url",
		`{"push":{"url":"http://10.0.0.1/"}}`:                            "push.url", // the guard's text of the fake
		`{"push":{"url":"https://x.example/","secret":"x"}}`:             "push.secret",
		`{"push":{"url":"https://x.example/","concurrency":0}}`:          "push.concurrency",
		`{"push":{"url":"https://x.example/","concurrency":1001}}`:       "push.concurrency",
		`{"push":{"url":"https://x.example/","concurrency":"4"}}`:        "push.concurrency",
		`{"push":{"url":"https://x.example/","permanent4xx":"yes"}}`:     "push.permanent4xx",
		`{"push":{"url":"https://x.example/","key":7}}`:                  "push.key",
		`{"push":{"url":"https://x.example/","key":"aaaaaaaaaaaaaaab"}}`: "push.key", // unknown
		`{"push":{"url":"https://x.example/","key":"admins22admins22"}}`: "push.key", // of another role
		`{"push":{"url":"https://x.example/","key":"gone2222gone2222"}}`: "push.key", // revoked
	} {
		r := newRooms(t)
		r.ring.keys = []job.Key{{ID: knownKey, Role: job.RoleWorker}, {ID: "admins22admins22", Role: job.RoleAdmin},
			{ID: "gone2222gone2222", Role: job.RoleWorker, RevokedAt: aMoment.Add(-time.Hour)}}
		wantProblem(t, r.json("PUT", "/admin/queues/films", body), 400, "INVALID_REQUEST", field)
		if r.queues.asked != nil {
			t.Errorf("%s: %q", body, r.queues.asked)
		}
	}
	r := newRooms(t)
	r.deps.CheckURL = nil
	r.Handler = NewHandler(r.deps)
	wantProblem(t, r.json("PUT", "/admin/queues/films", `{"push":{"url":"https://x.example/"}}`), 400, "INVALID_REQUEST",
		"push")
}

// queueKeysOf is webhookKeysOf for the names of queues, which are not base64.
func queueKeysOf(owner string) (secret, public string) {
	return webhookKeysOf(strings.ReplaceAll(owner, ":", "+"))
}

// An admin sees the whole URL and the keys that verify the posts. A caller who may only read sees the URL's scheme and
// host, in the log of changes too, and no keys. Nobody else sees or declares a queue. The keys are not in the log.
func TestQueues_PushShown(t *testing.T) {
	const path = "/hidden?token=hunter2"
	pushing := job.Queue{Name: "films", Push: job.Push{URL: "https://x.example" + path, Key: knownKey}, Version: 3}
	for kind, sees := range map[string]string{
		"admin": "all", "open": "all", "read-only": "host", "submit": "", "worker": "", "stranger": "",
	} {
		r := newRooms(t)
		r.deps.WebhookKeys = queueKeysOf
		r.queues.Set([]job.Queue{pushing})
		r.behind(callers[kind])
		secret, _ := queueKeysOf("queue:films")
		for _, at := range []string{"/admin/queues", "/admin/queues/films"} {
			got := r.do("GET", at, "").Body.String()
			if strings.Contains(got, path) != (sees == "all") || strings.Contains(got, secret) != (sees == "all") ||
				strings.Contains(got, `"url":"https://x.example"`) != (sees == "host") {
				t.Errorf("%s, %s: %s", kind, at, got)
			}
		}
		rec := r.json("PUT", "/admin/queues/films", `{"push":{"url":"https://y.example`+path+`"}}`)
		if (rec.Code == 200) != (sees == "all") || (r.queues.asked != nil) != (sees == "all") {
			t.Errorf("%s declares: %d %q", kind, rec.Code, r.queues.asked)
		}
		for _, change := range r.told.changes {
			if text := string(change.Before) + string(change.After); sees == "all" && (strings.Contains(text, "whsec_") ||
				!strings.Contains(text, "https://x.example"+path) || !strings.Contains(text, "https://y.example"+path)) {
				t.Errorf("%s: the log has %s", kind, text)
			}
		}
		if (len(r.told.changes) == 1) != (sees == "all") {
			t.Errorf("%s: the log has %+v", kind, r.told.changes)
		}
	}
}

// A caller who may only read sees in the log of changes which host a queue's jobs go to, and not the address.
func TestQueues_PushInTheLog(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{"admin": "https://x.example/hidden", "read-only": "https://x.example"} {
		r := newRooms(t)
		r.behind(callers[kind])
		r.told.changes = []job.Change{{ID: 43, At: aMoment, Action: "queue.put", Target: "films", Outcome: "done",
			After: []byte(`{"name":"films","push":{"url":"https://x.example/hidden","key":null}}`)}}
		got := r.do("GET", "/admin/audit", "").Body.String()
		if !strings.Contains(got, `"push":{"url":"`+want+`","key":null}`) {
			t.Errorf("%s: %s", kind, got)
		}
	}
}

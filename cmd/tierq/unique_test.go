package main

import (
	"net/http"
	"strings"
	"testing"
)

// What became of a submit with a unique key is said beside the id: the job that stands for it, or has the key.
func TestSubmitUnique(t *testing.T) {
	for on, tc := range map[string]struct {
		status int
		said   obj
		code   int
		stderr string
	}{
		"return": {202, obj{"jobId": pendingID, "currentJobStatus": "PENDING", "deduplicated": true}, 0,
			"this job has the unique key; no other was made"},
		"replace": {202, obj{"jobId": pendingID, "currentJobStatus": "PENDING", "deduplicated": true, "replaced": true}, 0,
			"this job has the unique key; it has the new payload now"},
		"after": {202, obj{"jobId": pendingID, "currentJobStatus": "HELD"}, 0, ""},
		"refuse": {409, obj{"status": 409, "errorCode": "UNIQUE_TAKEN", "jobId": pendingID,
			"detail": "job " + pendingID + " holds the unique key"}, exitError,
			"409 UNIQUE_TAKEN: job " + pendingID + " holds the unique key"},
	} {
		f := newFake(t)
		f.instead(func(w http.ResponseWriter, r *http.Request, _ string) bool {
			if !strings.HasSuffix(r.URL.Path, "/submit") {
				return false
			}
			if tc.status == http.StatusAccepted {
				reply(w, tc.status, data(tc.said))
			} else {
				reply(w, tc.status, tc.said)
			}
			return true
		})
		end := f.cli(t, world{tty: true}, "submit", "paid", "--unique", "shop 7", "--on", on)
		id := map[bool]string{true: pendingID + "\n"}[tc.code == 0]
		if end.code != tc.code || end.stdout != id || !strings.Contains(end.stderr, tc.stderr) {
			t.Errorf("%s: %v", on, end)
		}
		if body := f.last().body; body != `{"unique":{"key":"shop 7","on":"`+on+`"}}` {
			t.Errorf("%s: sent %s", on, body)
		}
	}
}

// Flags that do not fit are refused before anything is sent.
func TestSubmitUniqueMisused(t *testing.T) {
	for args, why := range map[string]string{
		"--on replace":                       "need --unique",
		"--unique-while living":              "need --unique",
		"--unique x --unique-while 10ms":     "is not waiting, living or a time of a second or more",
		"--unique x --unique-while sometime": "is not waiting, living or a time of a second or more",
		"--unique x --file jobs.ndjson":      "none of the others can be",
		"--key x --file jobs.ndjson":         "none of the others can be",
	} {
		f := newFake(t)
		end := f.cli(t, world{}, append([]string{"submit", "paid"}, split(args)...)...)
		if end.code != exitUsage || !strings.Contains(end.stderr, why) || len(f.requests("POST", "/")) > 0 {
			t.Errorf("%s: %v", args, end)
		}
	}
}

// A line of a file has a unique key as the API takes it.
func TestSubmitUniqueLines(t *testing.T) {
	k := newTaker(t, nil)
	end := k.cli(t, world{}, "submit", "paid", "--file", write(t,
		`{"unique": {"key": "a", "while": 60}}`,
		`{"unique": {"key": "b", "while": "waiting", "on": "replace", "maxWait": 5}}`))
	if end.code != 0 || len(k.bodies) != 2 {
		t.Fatalf("%v", end)
	}
	for i, want := range []obj{
		{"key": "a", "while": 60.0}, {"key": "b", "while": "waiting", "on": "replace", "maxWait": 5.0},
	} {
		got, _ := k.bodies[i]["unique"].(map[string]any)
		if len(got) != len(want) {
			t.Errorf("line %d: %v", i+1, got)
		}
		for name, v := range want {
			if got[name] != v {
				t.Errorf("line %d: %s is %v, not %v", i+1, name, got[name], v)
			}
		}
	}
	end = k.cli(t, world{}, "submit", "paid", "--file", write(t, `{"unique": {"key": "a", "while": true}}`))
	if end.code != exitUsage || !strings.Contains(end.stderr, "unique.while is neither a text nor a number of seconds") {
		t.Errorf("%v", end)
	}
}

// Many jobs have the key of the command, and a line of a file has its own.
func TestSubmitLineKeys(t *testing.T) {
	k := newTaker(t, nil)
	one := k.cli(t, world{}, "submit", "paid", "--count", "2", "--key", "acme")
	other := k.cli(t, world{}, "submit", "paid", "--file", write(t, `{"key": "shop 7"}`, `{}`))
	if one.code != 0 || other.code != 0 || len(k.bodies) != 4 {
		t.Fatalf("%v, %v", one, other)
	}
	for i, want := range []any{"acme", "acme", "shop 7", nil} {
		if got := k.bodies[i]["key"]; got != want {
			t.Errorf("job %d has the key %v, not %v", i+1, got, want)
		}
	}
}

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// taker is a fake server that records the jobs of batches, with their idempotency keys. If room is set, it returns
// how many jobs of a batch are accepted.
type taker struct {
	*fake
	keys    map[string]int // key -> times
	bodies  []obj
	batches int
	room    func(batch int) int
}

func newTaker(t *testing.T, room func(batch int) int) *taker {
	k := &taker{fake: newFake(t), keys: map[string]int{}, room: room}
	k.instead(func(w http.ResponseWriter, r *http.Request, body string) bool {
		if !strings.HasSuffix(r.URL.Path, "/submit/batch") {
			return false
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.batches++
		var entries []obj
		if err := json.Unmarshal([]byte(body), &entries); err != nil || len(entries) > 1000 {
			refuse(w, http.StatusBadRequest, "INVALID_REQUEST")
			return true
		}
		left := len(entries)
		if k.room != nil {
			if left = k.room(k.batches); left < 0 {
				refuse(w, http.StatusServiceUnavailable, "SYSTEM_UNHEALTHY")
				return true
			}
		}
		out := make([]obj, len(entries))
		for i, e := range entries {
			if out[i] = (obj{"errorCode": "QUEUE_FULL", "message": "full"}); i >= left {
				continue
			}
			key, _ := e["idempotencyKey"].(string)
			k.keys[key]++
			k.bodies = append(k.bodies, e)
			out[i] = obj{"jobId": jobID(len(k.bodies)), "currentJobStatus": "PENDING"}
		}
		reply(w, http.StatusAccepted, data(out))
		return true
	})
	return k
}

func write(t *testing.T, lines ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "jobs.ndjson")
	if err := os.WriteFile(name, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// A file is submitted in batches, in order. Temporarily refused jobs are sent again, and each job has its own
// idempotency key.
func TestSubmitFile(t *testing.T) {
	k := newTaker(t, func(batch int) int {
		return map[int]int{1: -1, 2: 1000, 3: 400, 4: -1}[batch] + map[bool]int{true: 1000}[batch > 4]
	})
	lines := make([]string, 2500)
	for i := range lines {
		lines[i] = fmt.Sprintf(`{"type": "T%d", "payload": {"n": %d}, "delaySeconds": 1.5}`, i, i)
	}
	lines[7] = ` `
	lines[8] = `{"idempotencyKey": "own", "type": "T8"}`
	end := k.cli(t, world{}, "submit", "paid", "--file", write(t, lines...), "--idempotency-key", "import")
	ids := strings.Fields(end.stdout)
	if end.code != 0 || len(ids) != 2499 || ids[0] != jobID(1) || ids[2498] != jobID(2499) {
		t.Fatalf("code %d, %d ids\n%s", end.code, len(ids), end.stderr)
	}
	if len(k.keys) != 2499 || k.keys["import-1"] != 1 || k.keys["own"] != 1 || k.keys["import-8"] != 0 ||
		k.keys["import-2500"] != 1 {
		t.Errorf("%d keys", len(k.keys))
	}
	if b := k.bodies[0]; b["type"] != "T0" || b["delaySeconds"] != 1.5 || fmt.Sprint(b["payload"]) != "map[n:0]" {
		t.Errorf("%v", b)
	}
	if b := k.bodies[2498]; b["type"] != "T2499" {
		t.Errorf("the last is %v", b)
	}
}

// Jobs come from standard input, and the output is a line of JSON about each.
func TestSubmitLines(t *testing.T) {
	k := newTaker(t, nil)
	end := k.cli(t, world{stdin: "{}\n{\"type\":\"A\"}"}, "submit", "paid", "--file", "-", "-o", "ndjson")
	want := fmt.Sprintf("{\"line\":1,\"jobId\":%q,\"currentJobStatus\":\"PENDING\"}\n{\"line\":2,\"jobId\":%q,"+
		"\"currentJobStatus\":\"PENDING\"}\n", jobID(1), jobID(2))
	if end.code != 0 || end.stdout != want || len(k.keys) != 2 {
		t.Errorf("%v", end)
	}
}

// An invalid line stops the submit before its batch. The error names the line, and how to continue.
func TestSubmitBadLine(t *testing.T) {
	for line, why := range map[string]string{
		`{"typ": "A"}`:                  `unknown field "typ"`,
		`{"type": 1}`:                   "cannot unmarshal number",
		`{`:                             "unexpected EOF",
		`{} {}`:                         "more than one JSON value",
		`{"delaySeconds": -1}`:          "out of range",
		strings.Repeat("x", maxLine+10): "has more than",
		`{"delaySeconds": 1, "runAt": "2026-12-01T08:00:00Z"}`: "exclude each other",
	} {
		k := newTaker(t, nil)
		lines := make([]string, 1200)
		for i := range lines {
			lines[i] = "{}"
		}
		lines[1100] = line
		end := k.cli(t, world{}, "submit", "paid", "--file", write(t, lines...), "--idempotency-key", "import")
		if end.code != exitUsage || !strings.Contains(end.stderr, "line 1101 of ") || !strings.Contains(end.stderr, why) ||
			!strings.Contains(end.stderr, "1000 accepted, 0 refused, 0 unknown before it ended; the same command again with "+
				"--idempotency-key import makes") {
			t.Errorf("%.40s: code %d %s", line, end.code, end.stderr)
		}
		if len(k.bodies) != 1000 || len(strings.Fields(end.stdout)) != 1000 {
			t.Errorf("%.40s: %d jobs", line, len(k.bodies))
		}
	}
	if end := newTaker(t, nil).cli(t, world{}, "submit", "paid", "--file", write(t, " ", "")); end.code != exitUsage ||
		!strings.Contains(end.stderr, "no job in") {
		t.Errorf("an empty file: %v", end)
	}
}

// A queue that stays full ends the submit with the exit code for unavailable, after the accepted jobs are printed.
// A queue that accepts a few jobs at a time does not end it.
func TestSubmitManyToFullQueue(t *testing.T) {
	t.Parallel()
	few := newTaker(t, func(int) int { return 2 }) // needs more tries than one call of the client has
	if end := few.cli(t, world{}, "submit", "paid", "--count", "12"); end.code != 0 || len(few.bodies) != 12 ||
		len(few.keys) != 12 {
		t.Errorf("%v: %d jobs, %d keys", end, len(few.bodies), len(few.keys))
	}
	full := newTaker(t, func(batch int) int { return map[int]int{1: 1000, 2: 3}[batch] })
	end := full.cli(t, world{}, "submit", "paid", "--count", "3000", "--idempotency-key", "k", "--wait")
	if end.code != exitUnavailable || len(strings.Fields(end.stdout)) != 1003 ||
		!strings.Contains(end.stderr, "1003 accepted, 997 refused") {
		t.Errorf("code %d, %d ids\n%s", end.code, len(strings.Fields(end.stdout)), end.stderr)
	}
	if full.batches > 12 {
		t.Errorf("%d batches against a full queue", full.batches)
	}
}

// After a broken connection, the same jobs are sent again with the same keys.
func TestSubmitManyOverBrokenConnection(t *testing.T) {
	k := newTaker(t, nil)
	inner, dropped := k.first, false
	k.instead(func(w http.ResponseWriter, r *http.Request, body string) bool {
		if !dropped {
			dropped = true
			panic(http.ErrAbortHandler)
		}
		return inner(w, r, body)
	})
	end := k.cli(t, world{}, "submit", "paid", "--count", "5", "-o", "name")
	sent := k.requests("POST", "/paid/submit/batch")
	if end.code != 0 || len(strings.Fields(end.stdout)) != 5 || len(sent) != 2 || sent[0].body != sent[1].body {
		t.Errorf("%v, %d requests", end, len(sent))
	}
}

// The request for one job contains every flag.
func TestSubmitOne(t *testing.T) {
	f := newFake(t)
	name := write(t, `{"n": 9007199254740993}`)
	for args, want := range map[string]string{
		"--type A --data '{\"x\": \"<&>\"}' --max-retries 0 --delay 90s --callback " +
			"https://e.com/": `{"type":"A","payload":{"x":"<&>"},"maxRetries":0,"delaySeconds":90,` +
			`"callbackUrl":"https://e.com/"}`,
		"--data @" + name + " --run-at 2026-12-01T10:00:00+02:00": `{"payload":{"n":9007199254740993},` +
			`"runAt":"2026-12-01T08:00:00Z"}`,
		"--delay 1s --expires-in 2m":             `{"delaySeconds":1,"expiresIn":120}`,
		"--expires-at 2026-12-01T10:00:00+02:00": `{"expiresAt":"2026-12-01T08:00:00Z"}`,
		"--data -":                               `{"payload":[1]}`,
		"--unique 'shop 7' --unique-while waiting --on replace": `{"unique":{"key":"shop 7","while":"waiting",` +
			`"on":"replace"}}`,
		"--unique shop --unique-while 10m": `{"unique":{"key":"shop","while":600}}`,
		"--key 'shop 7'":                   `{"key":"shop 7"}`,
		"--idempotency-key order7":         `{}`,
	} {
		end := f.cli(t, world{stdin: "[1]\n"}, append([]string{"submit", "Paid"}, split(args)...)...)
		got := f.last()
		if end.code != 0 || end.stdout != doneID+"\n" || got.path != "/paid/submit" || got.body != want {
			t.Errorf("%s: %v\n%s", args, end, got.body)
		}
		if key := got.header.Get("Idempotency-Key"); key == "" || strings.Contains(args, "order7") != (key == "order7") {
			t.Errorf("%s: key %q", args, key)
		}
	}
}

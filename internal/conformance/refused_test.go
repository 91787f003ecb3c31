package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// What the server refuses, and calls that get lost.

// savesOf reads which leases a heartbeat has, and whose checkpoint is in it.
func savesOf(body []byte) (leases []string, saves map[string]bool) {
	var c struct {
		Leases []struct {
			Lease string `json:"lease"`
			Save  int    `json:"save"`
		} `json:"leases"`
	}
	saves = map[string]bool{}
	_ = json.Unmarshal(body, &c) // the fake server has checked it
	for _, l := range c.Leases {
		leases = append(leases, l.Lease)
		if l.Save > 0 {
			saves[l.Lease] = true
		}
	}
	return leases, saves
}

// The server refuses the checkpoint of one lease, in its entry: the call of save fails with the server's text, and the
// other leases and checkpoints are not concerned.
func TestCheckpointRefused(t *testing.T) {
	checkpointRefused(t, func(body []byte) *act {
		leases, saves := savesOf(body)
		return changed(func(answer map[string]any) any {
			for i, lease := range leases {
				if pulse, ok := answer["leases"].([]any)[i].(map[string]any); ok && saves[lease] && isBad(lease) {
					pulse["error"] = problem(422, "INVALID_CHECKPOINT", "no checkpoint for you")
				}
			}
			return answer
		})
	})
}

// The same of a server that refuses the whole heartbeat because of one checkpoint.
func TestCheckpointRefused_WholeHeartbeat(t *testing.T) {
	checkpointRefused(t, func(body []byte) *act {
		if _, saves := savesOf(body); saves["bad/1"] {
			return refused(400, "INVALID_REQUEST", "no checkpoint for you")
		}
		return nil
	})
}

func isBad(lease string) bool { return strings.HasPrefix(lease, "bad/") }

func checkpointRefused(t *testing.T, answer func(body []byte) *act) {
	t.Helper()
	everyLibrary(t, func(t *testing.T, p program) {
		f := newFake(t)
		f.script = func(verb string, _ int, body []byte) *act {
			if verb == "heartbeat" && bytes.Contains(body, []byte(`"bad/1"`)) {
				return answer(body)
			}
			return nil
		}
		f.add("hold", "HOLD", `{"seconds":8}`)
		f.add("bad", "SAVE", `{"kind":"REFUSED"}`)
		f.add("save", "SAVE", `{"kind":"GOOD"}`)
		worker := p.start(t, f)
		for id, w := range map[string]want{
			"bad": partly("no checkpoint for you"), "save": partly(`"raised":false`), "hold": completed(`{"held":true}`),
		} {
			if err := w.check(f.await(t, id, 25*time.Second)); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
		if err := f.lastJob(t, worker); err != nil {
			t.Error(err)
		}
		f.sound(t)
	})
}

// The server refuses reports: a result for good, and whatever was to be retried stays so, with its text.
func TestReportRefused(t *testing.T) {
	everyLibrary(t, func(t *testing.T, p program) {
		f := newFake(t)
		f.script = func(verb string, _ int, body []byte) *act {
			if verb != "claim" && verb != "report" {
				return nil
			}
			for _, part := range []string{
				`"completed":{"result":{"a":[`, `"message":"boom"`, `"delaySeconds":5`, `"message":"bad"`,
			} {
				if bytes.Contains(body, []byte(part)) {
					return refused(413, "PAYLOAD_TOO_LARGE", "no report for you")
				}
			}
			return nil
		}
		f.add("result", "RETURN", `{"kind":"JSON"}`)
		f.add("error", "THROW", `{"kind":"ERROR"}`)
		f.add("permanent", "PERMANENT", `{"kind":"TEXT"}`)
		f.add("later", "LATER", `{"kind":"SECONDS","seconds":5}`)
		f.add("good-0", "GOOD", `{"n":0}`)
		worker := p.start(t, f)
		for id, w := range map[string]want{
			"result": final("the server refused the report: ").holds("no report for you"),
			"error":  failed("no report for you").starts("boom"), "permanent": final("").holds("no report for you"),
			"later": failed("no report for you"), "good-0": completed(`{"good":0,"starts":1}`),
		} {
			if err := w.check(f.await(t, id, 20*time.Second)); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
		if err := f.lastJob(t, worker); err != nil {
			t.Error(err)
		}
		f.sound(t)
	})
}

// Of twelve calls two lose their answers, one is cut, one is late, and one is refused for now: each job is handed out
// and started once, and has one report.
func TestLostCalls(t *testing.T) {
	everyLibrary(t, func(t *testing.T, p program) {
		const jobs = 60
		f, n := newFake(t), 0
		f.script = func(string, int, []byte) *act {
			n++
			return []*act{
				nil, {lost: true}, nil, nil, {cut: true}, nil, {wait: 200 * time.Millisecond}, nil,
				refused(503, "SYSTEM_UNHEALTHY", "not now"), nil, {lost: true}, nil,
			}[n%12]
		}
		for i := range jobs {
			f.add(good(i), "GOOD", fmt.Sprintf(`{"n":%d,"seconds":0.05}`, i))
		}
		worker := p.start(t, f)
		f.until(40*time.Second, func() bool { return worker.Exited() || f.settled() })
		for i := range jobs {
			if err := f.checkGood(i); err != nil {
				t.Errorf("job %d: %v", i, err)
			}
		}
		f.with(func() { f.script = nil })
		if err := f.lastJob(t, worker); err != nil {
			t.Error(err)
		}
		for _, twice := range startedOnce(worker) {
			t.Error(twice)
		}
		f.sound(t)
	})
}

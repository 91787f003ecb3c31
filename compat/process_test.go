package compat

import (
	"fmt"
	"strings"
	"testing"
	"time"

	faktory "github.com/contribsys/faktory/client"
)

// A worker may fetch through one process and report through another.
func TestReportThroughAnotherProcess(t *testing.T) {
	t.Parallel()
	all := cluster(t, 2)
	one, other := all[0].worker("w-1"), all[1].worker("w-1")
	done, failed := pushed(t, one, nil), pushed(t, one, nil)
	for range 2 {
		if j, err := one.Fetch("default"); j == nil || err != nil {
			t.Fatalf("%+v, %v", j, err)
		}
	}
	if err := other.Ack(done.Jid); err != nil {
		t.Error(err)
	}
	if err := other.Fail(failed.Jid, errBroken, nil); err != nil {
		t.Error(err)
	}
	stranger := all[1].worker("w-2")
	held := pushed(t, one, nil)
	fetched(t, one, held, "default")
	if err := stranger.Ack(held.Jid); err != nil { // as Faktory answers a job that nobody holds
		t.Error(err)
	}
	eventually(t, "one job runs, and one waits for its retry", func() (bool, string) {
		d := state(t, other).Data
		return d.Sets["working"] == 1 && d.Sets["retries"] == 1 && d.TotalProcessed == 2, fmt.Sprintf("%+v", d)
	})
}

// Operators make a worker quiet, and end it: its BEAT says so, and it gets no job meanwhile.
func TestOperatorsAskWorkers(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, s *tierq) {
		c := s.worker("w-1")
		pushed(t, c, nil)
		eventually(t, "the worker is listed", func() (bool, string) {
			got := s.calls("GET", "/admin/workers", "")
			return strings.Contains(got, `"w-1"`), got
		})
		for _, ask := range []struct{ path, want string }{
			{"quiet", `{"state":"quiet"}`}, {"terminate", `{"state":"terminate"}`}, {"resume", "OK"},
		} {
			s.calls("POST", "/admin/workers/w-1/"+ask.path, "")
			eventually(t, "BEAT says "+ask.want, func() (bool, string) {
				got, err := c.Generic(`BEAT {"wid":"w-1","rss_kb":1000}`)
				return err == nil && got == ask.want, fmt.Sprint(got, err)
			})
			if ask.path == "resume" {
				break
			}
			if j, err := c.Fetch("default"); j != nil || err != nil {
				t.Errorf("%s: it got %+v, %v", ask.path, j, err)
			}
		}
		if j, err := c.Fetch("default"); j == nil || err != nil {
			t.Errorf("a worker that may go on got %+v, %v", j, err)
		}
	})
}

// A job that a user cancels while it runs ends CANCELLED with its worker's ACK.
func TestCancel(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, s *tierq) {
		c := s.worker("w-1")
		j := pushed(t, c, nil)
		fetched(t, c, j, "default")
		list := s.calls("GET", "/api/jobs?queue=default", "")
		_, rest, _ := strings.Cut(list, `"jobId":"`)
		id, _, _ := strings.Cut(rest, `"`)
		s.calls("DELETE", "/api/jobs/"+id, "")
		if err := c.Ack(j.Jid); err != nil {
			t.Error(err)
		}
		eventually(t, "it is cancelled", func() (bool, string) {
			got := s.calls("GET", "/api/jobs/"+id, "")
			return strings.Contains(got, `"CANCELLED"`), got
		})
	})
}

// A worker of the HTTP API and a Faktory worker share a queue, whoever has submitted.
func TestBesideTheHTTPAPI(t *testing.T) {
	t.Parallel()
	s := starts(t)
	c := s.worker("w-1")
	j := pushed(t, c, func(j *faktory.Job) { j.Queue = "films" }, "film.mov")
	claimed := s.calls("POST", "/api/worker/claim", `{"worker":"h","queues":["films"]}`)
	if !strings.Contains(claimed, `"type":"Films::Cut"`) || !strings.Contains(claimed, `"jid":"`+j.Jid+`"`) {
		t.Errorf("the HTTP worker got %s", claimed)
	}
	s.calls("POST", "/paid/submit", `{"type":"RESIZE","queue":"films","payload":{"width":2}}`)
	got, err := c.Fetch("films")
	if err != nil || got == nil || got.Type != "RESIZE" || len(got.Args) != 1 {
		t.Fatalf("the Faktory worker got %+v, %v", got, err)
	}
	if err := c.Ack(got.Jid); err != nil {
		t.Error(err)
	}
	eventually(t, "it is completed", func() (bool, string) {
		text := s.calls("GET", "/result/poll?jobId="+got.Jid, "")
		return strings.Contains(text, `"COMPLETED"`), text
	})
}

// A server that stops answers a FETCH that waits, and a started one takes the ACK of its worker, which connects anew.
func TestRestart(t *testing.T) {
	t.Parallel()
	all := cluster(t, 2)
	c := all[0].worker("w-1")
	j := pushed(t, c, nil)
	fetched(t, c, j, "default")
	if err := all[0].Kill(); err != nil {
		t.Fatal(err)
	}
	again := all[1].worker("w-1")
	if err := again.Ack(j.Jid); err != nil {
		t.Error(err)
	}
	if d := state(t, again).Data; d.TotalProcessed != 1 || d.Sets["working"] != 0 {
		t.Errorf("afterwards there is %+v", d)
	}
	began := time.Now()
	if j, err := again.Fetch("default"); j != nil || err != nil || time.Since(began) > 4*time.Second {
		t.Errorf("then it got %+v, %v after %s", j, err, time.Since(began))
	}
}

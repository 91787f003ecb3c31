package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/tierq/tierq/client"
	"github.com/tierq/tierq/internal/testkit"
)

// One endpoint acknowledges the document and manages it only after a while; one rejects it. With "until":
// "MANAGED" the job asks again, without another submission and without a retry. Its history says which endpoint it
// waits for, and until when. It completes with a note that lists show.
func TestForwardDocumentUntilManaged(t *testing.T) {
	t.Attr("proves", "S3-S5 S3-S6 S3-S7 S3-Q5 S3-I16")
	t.Parallel()
	c := newCluster(t)
	r := newReceiver(t, func(w http.ResponseWriter, c call, before int) {
		status, text := http.StatusNotFound, ""
		switch {
		case c.is(http.MethodPost, "/slow/documents"):
			status, text = http.StatusAccepted, `{"status":"SUBMITTED"}`
		case c.is(http.MethodGet, "/slow/documents/D-7") && before >= 3:
			status, text = http.StatusOK, `{"status":"MANAGED"}`
		case c.is(http.MethodGet, "/slow/documents/D-7") && before >= 1:
			status, text = http.StatusOK, `{"status":"QUEUED"}`
		case c.is(http.MethodPost, "/refuses/documents"):
			status = http.StatusUnprocessableEntity
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text))
	})
	s := c.start(outward...)
	plain := s.submit("public", documents(r, "refuses", "slow"))
	c.settled(20*time.Second, plain)
	if got := s.forwarded(plain); got["slow"] != "SUBMITTED" {
		t.Fatalf("without the option: %v", got)
	}
	r.forget()
	id := s.submit(
		"public",
		strings.Replace(documents(r, "slow", "refuses"), `"endpoints"`, `"until":"MANAGED","endpoints"`, 1),
	)
	s.await(id, "SCHEDULED", 5*time.Second)
	c.settled(30*time.Second, id)
	j := get[sdk.Job](t, s.base+"/jobs/"+id)
	if got := s.forwarded(id); got["slow"] != "MANAGED" || got["refuses"] != "REJECTED" || j.RetryCount != 0 ||
		j.Attempts != 4 {
		t.Errorf("%v, %d retries, %d attempts", got, j.RetryCount, j.Attempts)
	}
	for name, want := range map[string]int{"slow": 1, "refuses": 1} {
		if n := len(r.of(http.MethodPost, "/"+name+"/documents")); n != want {
			t.Errorf("%s was sent the document %d times", name, n)
		}
	}
	for i, h := range j.History {
		waits := h.Outcome == "LATER" && strings.HasPrefix(h.Reason, "1 of 2 endpoints say SUBMITTED: 127.0.0.1") &&
			h.Until.After(h.FinishedAt) &&
			h.Error == ""
		if h.Generation != 1 || (i < 3) != waits || i == 3 && (h.Outcome != "SUCCESS" || h.Reason != "") {
			t.Errorf("attempt %d: %+v", i+1, h)
		}
		if i > 0 && h.StartedAt.Before(j.History[i-1].Until) {
			t.Errorf("attempt %d began at %s, before %s", i+1, h.StartedAt, j.History[i-1].Until)
		}
	}
	const note = "rejected by 1 of 2 endpoints: 127.0.0.1"
	noted := func(url string) string {
		for _, row := range get[struct{ Items []sdk.Job }](t, s.base+url).Items {
			if row.JobID == id {
				return row.Note
			}
		}
		return ""
	}
	if got := noted("/admin/jobs?type=FORWARD_DOCUMENT"); !strings.HasPrefix(got, note) || j.Note != got {
		t.Errorf("the list notes %q, the job %q, want %q", got, j.Note, note)
	}
	for _, path := range []string{"/dashboard/jobs?type=FORWARD_DOCUMENT", "/poll?jobId=" + id} {
		if page := do(t, http.MethodGet, s.base+path, "", "Accept", "text/html"); !strings.Contains(
			string(page.body),
			note,
		) {
			t.Errorf("%s does not say %q", path, note)
		}
	}
	if page := do(t, http.MethodGet, s.base+"/poll?jobId="+id, "", "Accept", "text/html"); !strings.Contains(
		string(page.body),
		"1 of 2 endpoints say SUBMITTED",
	) {
		t.Error("the page of the job does not say whom it waited for")
	}
}

// A document that is not MANAGED at the time limit has failed for good. After a requeue it is looked up before
// anything is sent.
func TestForwardDocumentUntilTooLong(t *testing.T) {
	t.Attr("proves", "S3-S13")
	t.Parallel()
	c := newCluster(t)
	r := newReceiver(t, func(w http.ResponseWriter, c call, before int) {
		switch {
		case c.is(http.MethodPost, "/stuck/documents"):
			w.WriteHeader(http.StatusAccepted)
		case before == 0:
			w.WriteHeader(http.StatusNotFound)
		default:
			_, _ = w.Write([]byte(`{"status":"SUBMITTED"}`))
		}
	})
	s := c.start(outward...)
	id := s.submit(
		"public",
		strings.Replace(documents(r, "stuck"), `"endpoints"`, `"until":"MANAGED","untilSeconds":2,"endpoints"`, 1),
	)
	failed := s.await(id, "FAILED", 20*time.Second)
	if failed.RetryCount != 0 || failed.FailureCause == nil || *failed.FailureCause != "PERMANENT_ERROR" {
		t.Errorf("%+v", failed)
	}
	c.settled(20*time.Second, id)
	testkit.Eventually(t, 10*time.Second, "the requeue is promised", func() (bool, string) {
		a := do(t, http.MethodPost, s.base+"/jobs/"+id+"/retry", "")
		return a.status == http.StatusAccepted, string(a.body)
	})
	testkit.Eventually(t, 10*time.Second, "the new life waits too", func() (bool, string) {
		j := get[sdk.Job](t, s.base+"/jobs/"+id)
		n := len(j.History)
		return n > 0 && j.History[n-1].Generation == 2 &&
				j.History[n-1].Outcome == "LATER", string(
				do(t, http.MethodGet, s.base+"/jobs/"+id, "").body,
			)
	})
	if n := len(r.of(http.MethodPost, "/stuck/documents")); n != 1 {
		t.Errorf("the document was sent %d times", n)
	}
}

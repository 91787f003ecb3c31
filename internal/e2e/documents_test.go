package e2e

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ledongthuc/pdf"

	"github.com/tierq/tierq/internal/testkit"
)

// documents returns a job that forwards one document to endpoints at a receiver, one for each name.
func documents(r *receiver, names ...string) string {
	for i, name := range names {
		names[i] = `"` + r.URL + "/" + name + `"`
	}
	return `{"type":"FORWARD_DOCUMENT","payload":{"documentId":"D-7","contentType":"text/plain","body":"hello",` +
		`"endpoints":[` + strings.Join(names, ",") + `]}}`
}

// forwarded returns the statuses of a completed FORWARD_DOCUMENT job's endpoints, by name.
func (s *server) forwarded(id string) map[string]string {
	s.t.Helper()
	var result struct {
		Endpoints []struct{ URL, Status, Detail string }
	}
	if err := json.Unmarshal(s.poll(id).Result, &result); err != nil {
		s.t.Fatal(err)
	}
	of := map[string]string{}
	for _, e := range result.Endpoints {
		of[e.URL[strings.LastIndex(e.URL, "/")+1:]] = e.Status
	}
	return of
}

// A document goes to four endpoints: one knows it, one takes it, one is busy and names a time, one refuses it.
// Each has its own result, each that takes the document gets it once, and the wait for the busy one costs no
// retry.
func TestForwardDocument(t *testing.T) {
	t.Attr("proves", "S3-I13 S3-I14 S3-Q5 S3-I3")
	t.Parallel()
	c := newCluster(t)
	r := newReceiver(t, func(w http.ResponseWriter, c call, before int) {
		say := func(status int, text string) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(text))
		}
		switch _, name, _ := strings.Cut(c.path, "/"); {
		case name == "knows/documents/D-7":
			say(http.StatusOK, `{"status":"MANAGED"}`)
		case c.method == http.MethodGet:
			say(http.StatusNotFound, "")
		case name == "takes/documents":
			say(http.StatusCreated, `{"status":"MANAGED"}`)
		case name == "busy/documents" && before < 2:
			w.Header().Set("Retry-After", "1")
			say(http.StatusServiceUnavailable, "")
		case name == "busy/documents":
			say(http.StatusAccepted, `{"status":"SUBMITTED"}`)
		case name == "refuses/documents":
			say(http.StatusUnprocessableEntity, `{"status":"REJECTED","detail":"no text/plain here"}`)
		}
	})
	s := c.start(outward...)
	id := s.submit("public", documents(r, "knows", "takes", "busy", "refuses"))
	waits := s.await(id, "SCHEDULED", 5*time.Second)
	if waits.RetryCount != 0 {
		t.Errorf("waiting for the busy one: %+v", waits)
	}
	c.settled(20*time.Second, id)
	want := map[string]string{"knows": "MANAGED", "takes": "MANAGED", "busy": "SUBMITTED", "refuses": "REJECTED"}
	if got := s.forwarded(id); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	for name, posts := range map[string]int{"knows": 0, "takes": 1, "busy": 3, "refuses": 1} {
		if n := len(r.of(http.MethodPost, "/"+name+"/documents")); n != posts {
			t.Errorf("%s was sent the document %d times, want %d", name, n, posts)
		}
	}
	busy := r.of(http.MethodPost, "/busy/documents")
	for i := 1; i < len(busy); i++ {
		if pause := busy[i].at.Sub(busy[i-1].at); pause < time.Second {
			t.Errorf("it asked for 1 s and was asked again after %s", pause)
		}
	}
	j := s.job(id)
	var outcomes []string
	for _, h := range j.History {
		outcomes = append(outcomes, h.Outcome)
	}
	if j.RetryCount != 0 || j.Attempts != 3 || !slices.Equal(outcomes, []string{"LATER", "LATER", "SUCCESS"}) {
		t.Errorf("retryCount %d, %d attempts, history %v", j.RetryCount, j.Attempts, outcomes)
	}
}

// The worker dies in the middle of a document. One endpoint has taken it and does not show it in a lookup yet: the
// checkpoint has its answer. The other has taken it, but its answer was not read: the lookup finds the document.
// Neither gets it twice.
func TestForwardDocumentKilled(t *testing.T) {
	t.Attr("proves", "S3-I14 F01")
	t.Parallel()
	c := newCluster(t)
	died := make(chan struct{})
	r := newReceiver(t, func(w http.ResponseWriter, c call, before int) {
		switch {
		case c.is(http.MethodPost, "/forgets/documents"):
			w.WriteHeader(http.StatusAccepted)
		case c.is(http.MethodPost, "/hangs/documents"):
			select {
			case <-died:
			case <-t.Context().Done():
			}
		case c.is(http.MethodGet, "/hangs/documents/D-7") && before > 0:
			_, _ = w.Write([]byte(`{"status":"MANAGED"}`))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	api := c.start(append(outward, "TIERQ_ROLES=api,recovery")...)
	api.tune("PUBLIC", map[string]any{"heartbeatTimeoutMs": 1500})
	doomed := c.start(append(outward, "TIERQ_ROLES=worker")...)
	id := api.submit("public", documents(r, "forgets", "hangs"))
	checkpoint := ""
	testkit.Eventually(t, 10*time.Second, "one endpoint's answer is saved, the other hangs", func() (bool, string) {
		checkpoint = c.rdb.HGet(t.Context(), "{tierq:0}:checkpoints", id).Val()
		return checkpoint != "" && len(r.of(http.MethodPost, "/hangs/documents")) == 1, checkpoint
	})
	if err := doomed.Kill(); err != nil {
		t.Fatal(err)
	}
	close(died)
	t.Logf("evidence: pid %d killed with the lease open: %v; saved: %s", doomed.Pid(), c.leased(id), checkpoint)
	c.start(append(outward, "TIERQ_ROLES=worker")...)
	p := api.await(id, "COMPLETED", detected)
	if got := api.forwarded(id); p.RetryCount != 1 || got["forgets"] != "SUBMITTED" || got["hangs"] != "MANAGED" {
		t.Errorf("%d retries, %v", p.RetryCount, got)
	}
	for _, name := range []string{"forgets", "hangs"} {
		if n := len(r.of(http.MethodPost, "/"+name+"/documents")); n != 1 {
			t.Errorf("%s was sent the document %d times", name, n)
		}
		if n := len(r.of(http.MethodGet, "/"+name+"/documents/D-7")); n != 2 {
			t.Errorf("%s was asked %d times, want once in each attempt", name, n)
		}
	}
	c.settled(15*time.Second, id)
}

// file downloads the file of a job, and compares it with the job's result.
func (s *server) file(id string) (name string, a answer) {
	s.t.Helper()
	var made struct {
		Artifact struct {
			Name, ContentType, URL string
			Bytes                  int
		}
	}
	if err := json.Unmarshal(s.poll(id).Result, &made); err != nil {
		s.t.Fatal(err)
	}
	m := made.Artifact
	if m.URL != "/jobs/"+id+"/artifact" {
		s.t.Errorf("url %q", m.URL)
	}
	a = do(s.t, http.MethodGet, s.base+m.URL, "")
	if a.status != http.StatusOK || len(a.body) != m.Bytes || a.header.Get("Content-Type") != m.ContentType ||
		a.header.Get("Content-Disposition") != `attachment; filename="`+m.Name+`"` {
		s.t.Errorf("%d %v, %d bytes; the result says %+v", a.status, a.header, len(a.body), m)
	}
	return m.Name, a
}

// text returns the text of a PDF, read by a library that did not write it.
func text(t *testing.T, file []byte) string {
	t.Helper()
	r, err := pdf.NewReader(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	plain, err := r.GetPlainText()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := all.ReadFrom(plain); err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// One process serves the file that another one made: a PDF from its text, and a report of the jobs that ran. A job
// of a type without files has none.
func TestFilesOfJobs(t *testing.T) {
	t.Attr("proves", "S1-P4 S0-P12")
	t.Parallel()
	c := newCluster(t)
	blobs := "TIERQ_BLOB_URL=file://" + t.TempDir()
	api := c.start(blobs, "TIERQ_ROLES=api")
	c.start(blobs, "TIERQ_ROLES=worker,recovery")
	var ran []string
	for range 3 {
		ran = append(ran, api.submit("paid", "{}"))
	}
	ran = append(ran, api.submit("public", `{"payload":{"steps":[{"type":"FAIL","message":"boom"}]},"maxRetries":0}`))
	ran = append(ran, api.submit("unpaid", `{"type":"GENERATE_PDF","payload":{"title":"Invoice 17","paragraphs":["Thank you, Zoe."],
		"table":{"header":["item","price"],"rows":[["tea","3.50"],["cake","4.20"]]}}}`))
	c.settled(20*time.Second, ran...)

	name, made := api.file(ran[4])
	if !strings.HasSuffix(name, ".pdf") || made.header.Get("Content-Type") != "application/pdf" {
		t.Errorf("%s, %s", name, made.header.Get("Content-Type"))
	}
	said := text(t, made.body)
	for _, part := range []string{"Invoice 17", "Thank you, Zoe.", "price", "cake", "4.20"} {
		if !strings.Contains(said, part) {
			t.Errorf("the PDF does not say %q: %q", part, said)
		}
	}
	wants(t, do(t, http.MethodGet, api.base+"/jobs/"+ran[0]+"/artifact", ""), http.StatusNotFound, "NOT_FOUND")

	now := time.Now().UTC()
	report := func(format string) string {
		return api.submit("paid", fmt.Sprintf(`{"type":"REPORT","payload":{"from":%q,"to":%q,"format":%q}}`,
			now.Add(-time.Hour).Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339), format))
	}
	csvID := report("csv")
	c.settled(20*time.Second, csvID)
	pdfID := report("pdf")
	c.settled(20*time.Second, pdfID)
	name, made = api.file(csvID)
	rows, err := csv.NewReader(bytes.NewReader(made.body)).ReadAll()
	if err != nil || !strings.HasSuffix(name, ".csv") || !strings.HasPrefix(made.header.Get("Content-Type"), "text/csv") {
		t.Fatalf("%s %v: %s", name, err, made.body)
	}
	var counted []string
	for _, row := range rows {
		counted = append(counted, strings.Join(row[:5], " "))
	}
	if want := []string{
		"tier type completed failed cancelled", "PAID SIMULATION 3 0 0", "PUBLIC SIMULATION 0 1 0",
		"UNPAID GENERATE_PDF 1 0 0",
	}; !slices.Equal(counted, want) {
		t.Errorf("counted %q", counted)
	}
	if _, made = api.file(pdfID); !strings.Contains(text(t, made.body), "5 completed, 1 failed, 0 cancelled, 0 expired.") {
		t.Errorf("the PDF report: %q", text(t, made.body))
	}
}

package httpapi

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// file is the body of an artifact. It records whether it was closed.
type file struct {
	io.Reader
	closed bool
}

func (f *file) Close() error { f.closed = true; return nil }

func TestArtifact(t *testing.T) {
	for _, method := range []string{"GET", "HEAD"} {
		r := newRooms(t)
		body := &file{Reader: strings.NewReader("%PDF-1.7 ...")}
		r.artifact = func() (io.ReadCloser, string, string, int64, error) {
			return body, "report.pdf", "application/pdf", 12, nil
		}
		rec := r.do(method, jobKnown+"/artifact", "")
		if got := rec.Body.String(); rec.Code != 200 || got != "%PDF-1.7 ..." && method == "GET" ||
			got != "" && method == "HEAD" {
			t.Errorf("%s: %d %q", method, rec.Code, got)
		}
		wantHeader(t, rec, "Content-Type", "application/pdf")
		wantHeader(t, rec, "Content-Length", "12")
		wantHeader(t, rec, "Content-Disposition", `attachment; filename="report.pdf"`)
		wantHeader(t, rec, "X-Content-Type-Options", "nosniff")
		if !body.closed {
			t.Errorf("%s: left open", method)
		}
	}
	r := newRooms(t)
	r.artifact = func() (io.ReadCloser, string, string, int64, error) { return nil, "", "", 0, job.ErrNoArtifact }
	if body := wantProblem(t, r.do("GET", jobKnown+"/artifact", ""), 404,
		"NOT_FOUND"); body["detail"] != "the job made no file" || body["jobId"] != string(knownID) {
		t.Errorf("%v", body)
	}
	r.artifact = func() (io.ReadCloser, string, string, int64, error) { return nil, "", "", 0, job.ErrNotFound }
	wantProblem(t, r.do("GET", jobKnown+"/artifact", ""), 404, "JOB_NOT_FOUND")
	wantProblem(t, r.do("GET", "/jobs/7/artifact", ""), 400, "INVALID_REQUEST", "id")
}

// Any file name gives a single valid header, and a browser saves the file under a name without a path.
func TestArtifact_Names(t *testing.T) {
	t.Attr("proves", "A56")
	for name, want := range map[string]struct{ plain, whole string }{
		"report.pdf":             {"report.pdf", "report.pdf"},
		"a b.csv":                {"a b.csv", "a b.csv"},
		`a".pdf`:                 {`a_.pdf`, `a".pdf`},
		"../../etc/passwd":       {"etcpasswd", "etcpasswd"},
		`..\evil.exe`:            {"evil.exe", "evil.exe"},
		"x.pdf\r\nSet-Cookie: a": {"x.pdfSet-Cookie: a", "x.pdfSet-Cookie: a"},
		"Übersicht 100%.pdf":     {"_bersicht 100_.pdf", "Übersicht 100%.pdf"},
		"报告.pdf":                 {"__.pdf", "报告.pdf"},
		"\xff\x00":               {"artifact", "artifact"},
		"":                       {"artifact", "artifact"},
		"a\u202efdp.exe":         {"afdp.exe", "afdp.exe"},
		"a; filename=evil.exe":   {"a; filename=evil.exe", "a; filename=evil.exe"},
		`a"; filename="evil.exe`: {`a_; filename=_evil.exe`, `a"; filename="evil.exe`},
	} {
		header := attachment(name)
		if strings.ContainsAny(header, "\r\n\x00") || !visible(strings.ReplaceAll(header, " ", "_")) {
			t.Errorf("%q: %q", name, header)
		}
		if !strings.HasPrefix(header, `attachment; filename="`+want.plain+`"`) {
			t.Errorf("%q: %q", name, header)
		}
		_, params, err := mime.ParseMediaType(strings.Replace(header, `filename="`+want.plain+`"; `, "", 1))
		if err != nil || params["filename"] != want.whole {
			t.Errorf("%q: %q is read as %q, %v", name, header, params["filename"], err)
		}
	}
	for sent, want := range map[string]string{
		"text/csv; charset=utf-8": "text/csv; charset=utf-8", "": "application/octet-stream", "x": "x",
		"a/b\r\nX: y": "application/octet-stream",
	} {
		if got := mediaType(sent); got != want && want != "x" || strings.ContainsAny(got, "\r\n") {
			t.Errorf("%q: %q", sent, got)
		}
	}
}

// If a file ends too early, or cannot be read on, the connection breaks off, so that the file does not look
// complete.
func TestArtifact_BrokenOff(t *testing.T) {
	for name, c := range map[string]struct {
		body io.Reader
		size int64
	}{
		"too short":         {strings.NewReader("half"), 10},
		"breaks":            {io.MultiReader(strings.NewReader("half"), broken{}), 10},
		"breaks, no length": {io.MultiReader(strings.NewReader("half"), broken{}), -1},
		"too long":          {strings.NewReader("more than it said"), 10},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRooms(t)
			r.artifact = func() (io.ReadCloser, string, string, int64, error) {
				return io.NopCloser(c.body), "a", "text/plain", c.size, nil
			}
			s := serve(t, r)
			res, err := http.Get("http://" + s.Addr() + jobKnown + "/artifact")
			if err != nil {
				return // the connection broke before the headers arrived
			}
			defer res.Body.Close()
			if body, err := io.ReadAll(res.Body); err == nil {
				t.Errorf("it looks whole: %q", body)
			}
		})
	}
	http.DefaultClient.CloseIdleConnections()
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("the store went away") }

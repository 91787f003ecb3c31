package web

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
)

func get(t *testing.T, pages []Page, path string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	for _, p := range pages {
		if p.Path == path {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			for i := 0; i+1 < len(headers); i += 2 {
				r.Header.Set(headers[i], headers[i+1])
			}
			w := httptest.NewRecorder()
			p.Handler.ServeHTTP(w, r)
			return w
		}
	}
	t.Fatalf("no page %s", path)
	return nil
}

// The viewer and everything it loads come from here: the page names no other host, and each file that it names is
// served.
func TestDocsAreOffline(t *testing.T) {
	pages := Docs([]byte("openapi: 3.1.0\n"))
	page := get(t, pages, "/docs")
	body := page.Body.String()
	if strings.Contains(body, "://") ||
		!strings.Contains(page.Header().Get("Content-Security-Policy"), "connect-src 'self'") {
		t.Errorf("the page reaches out: %s %v", body, page.Header())
	}
	named := regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllStringSubmatch(body, -1)
	if len(named) != 4 {
		t.Errorf("the page names %d files", len(named))
	}
	for _, m := range named {
		if w := get(t, pages, m[1]); w.Code != 200 || w.Body.Len() == 0 {
			t.Errorf("%s: %d, %d bytes", m[1], w.Code, w.Body.Len())
		}
	}
	if start := get(t, pages, "/docs/assets/start.js").Body.String(); !strings.Contains(start, `url: "/openapi.yaml"`) ||
		strings.Contains(start, "://") {
		t.Error(start)
	}
	if got := get(t, pages, "/openapi.yaml").Body.String(); got != "openapi: 3.1.0\n" {
		t.Errorf("description: %q", got)
	}
}

func TestDocsAreZippedForThoseWhoCanReadIt(t *testing.T) {
	pages := Docs(nil)
	for accept, zipped := range map[string]bool{"": false, "gzip, br": true, "br;q=1, GZIP;q=0.5": true, "gzip;q=0": false,
		"deflate": false} {
		w := get(t, pages, "/docs/assets/swagger-ui.css", "Accept-Encoding", accept)
		if got := w.Header().Get("Content-Encoding") == "gzip"; got != zipped || w.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("%q: zipped %v, %v", accept, got, w.Header())
		}
		if isText := strings.HasPrefix(w.Body.String(), ".swagger-ui"); isText == zipped {
			t.Errorf("%q: the body does not say what the header says", accept)
		}
	}
}

// What is vendored is what VENDOR.md says it is.
func TestVendoredSums(t *testing.T) {
	list, err := os.ReadFile("VENDOR.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| (static/\S+) \| [^|]+ \| ([0-9a-f]{64}) \|`).FindAllStringSubmatch(string(list),
		-1)
	if len(rows) != 4 {
		t.Fatalf("%d files listed", len(rows))
	}
	for _, row := range rows {
		f, err := static.Open(row[1])
		if err != nil {
			t.Fatal(err)
		}
		zipped, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(unzip(zipped)); hex.EncodeToString(sum[:]) != row[2] {
			t.Errorf("%s is not what VENDOR.md says", row[1])
		}
	}
}

package web

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func ask(d http.Handler, method string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/bundle.js", nil)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w
}

// A zipped document is unzipped at most once, whatever is asked of it, and not at all for clients that accept gzip.
func TestDocument_IsUnzippedOnce(t *testing.T) {
	unzipped := 0
	d := zippedDocument(zip([]byte("let x = 1;")), "text/javascript", func(body []byte) []byte {
		unzipped++
		return unzip(body)
	})
	for range 3 {
		ask(d, http.MethodGet, "Accept-Encoding", "gzip")
		ask(d, http.MethodHead, "Accept-Encoding", "gzip")
	}
	if unzipped != 0 {
		t.Errorf("clients that accept gzip had it unzipped %d times", unzipped)
	}
	for range 3 {
		if w := ask(d, http.MethodGet); w.Body.String() != "let x = 1;" {
			t.Errorf("GET is answered with %q", w.Body)
		}
		if w := ask(d, http.MethodHead); w.Body.Len() != 0 || w.Header().Get("Content-Length") != "10" {
			t.Errorf("HEAD is answered with %q, %v", w.Body, w.Header())
		}
	}
	if unzipped != 1 {
		t.Errorf("it was unzipped %d times for six clients that do not accept gzip", unzipped)
	}
}

// A client that has a document is told so without its bytes. Each encoding has an ETag of its own.
func TestDocument_ETag(t *testing.T) {
	d := zippedDocument(zip([]byte("let x = 1;")), "text/javascript", unzip)
	plain := ask(d, http.MethodGet).Header().Get("ETag")
	zipped := ask(d, http.MethodGet, "Accept-Encoding", "gzip").Header().Get("ETag")
	if plain == "" || zipped == "" || plain == zipped {
		t.Fatalf("ETags %s and %s", plain, zipped)
	}
	cases := map[string]struct {
		sent, accepts string
		status        int
	}{
		"the plain one":             {plain, "", 304},
		"the zipped one":            {zipped, "gzip", 304},
		"of the other encoding":     {zipped, "", 200},
		"weak, as a proxy makes it": {"W/" + plain, "", 304},
		"among others":              {`"a", ` + plain + `, "b"`, "", 304},
		"any":                       {"*", "", 304},
		"another":                   {`"a"`, "", 200},
		"none":                      {"", "", 200},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				w := ask(d, method, "If-None-Match", c.sent, "Accept-Encoding", c.accepts)
				if w.Code != c.status || (w.Body.Len() > 0) != (c.status == 200 && method == http.MethodGet) {
					t.Errorf("%s: %d with %d bytes", method, w.Code, w.Body.Len())
				}
				if w.Header().Get("ETag") == "" || w.Header().Get("Vary") != "Accept-Encoding" ||
					w.Header().Get("Cache-Control") != "no-cache" {
					t.Errorf("%s: %v", method, w.Header())
				}
			}
		})
	}
}

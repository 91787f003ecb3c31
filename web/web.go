// Package web holds what browsers see. Everything is in the binary: no page asks another host for anything.
package web

import (
	"bytes"
	"compress/gzip"
	"embed"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
)

//go:embed static
var static embed.FS

// Page is one address of the web: GET and HEAD.
type Page struct {
	Path    string
	Handler http.Handler
}

// docsPolicy lets the viewer set styles, which it cannot do without; scripts come from here only.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
	"connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"

// Docs are the pages that show an OpenAPI description: /docs with its files, and the description itself at /openapi.yaml.
func Docs(openapi []byte) []Page {
	file := func(name, contentType, policy string) http.Handler {
		body, err := fs.ReadFile(static, name)
		if err != nil {
			panic(err) // the file is named here and embedded above
		}
		return serve(body, contentType, strings.HasSuffix(name, ".gz"), policy)
	}
	const vendored = "static/vendor/swagger-ui/"
	return []Page{
		{"/openapi.yaml", serve(openapi, "application/yaml", false, "")},
		{"/docs", file("static/docs/index.html", "text/html; charset=utf-8", docsPolicy)},
		{"/docs/assets/start.js", file("static/docs/start.js", "text/javascript; charset=utf-8", "")},
		{"/docs/assets/swagger-ui.css", file(vendored+"swagger-ui.css.gz", "text/css; charset=utf-8", "")},
		{"/docs/assets/swagger-ui-bundle.js", file(vendored+"swagger-ui-bundle.js.gz", "text/javascript; charset=utf-8", "")},
	}
}

// serve answers with one body. A zipped one is sent as it is to those who can read it, and unzipped to others.
func serve(body []byte, contentType string, zipped bool, policy string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", contentType)
		h.Set("Cache-Control", "no-cache")
		if policy != "" {
			h.Set("Content-Security-Policy", policy)
		}
		out := body
		if zipped {
			h.Set("Vary", "Accept-Encoding")
			if takesGzip(r.Header.Values("Accept-Encoding")) {
				h.Set("Content-Encoding", "gzip")
			} else {
				out = unzip(body)
			}
		}
		h.Set("Content-Length", strconv.Itoa(len(out)))
		w.WriteHeader(http.StatusOK)
		if r.Method != http.MethodHead {
			_, _ = w.Write(out) // a browser that left asks again
		}
	})
}

func takesGzip(headers []string) bool {
	for _, h := range headers {
		for one := range strings.SplitSeq(h, ",") {
			name, quality, _ := strings.Cut(strings.TrimSpace(one), ";")
			if strings.EqualFold(strings.TrimSpace(name), "gzip") && strings.ReplaceAll(quality, " ", "") != "q=0" {
				return true
			}
		}
	}
	return false
}

func unzip(body []byte) []byte {
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		panic(err) // embedded, and held to its sum by a test
	}
	out, err := io.ReadAll(r)
	if err != nil {
		panic(err)
	}
	return out
}

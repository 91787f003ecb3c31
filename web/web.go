// Package web holds what browsers see. Everything is in the binary: no page asks another host for anything.
package web

import (
	"bytes"
	"compress/gzip"
	"embed"
	"io"
	"net/http"
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

// Docs are the pages that show an OpenAPI description: /docs with its files, and the description itself at
// /openapi.yaml.
func Docs(openapi []byte) []Page {
	const vendored = "static/vendor/swagger-ui/"
	return []Page{
		{"/openapi.yaml", plainDocument(openapi, "application/yaml", "")},
		{"/docs", plainDocument(embedded("static/docs/index.html"), "text/html; charset=utf-8", docsPolicy)},
		{"/docs/assets/start.js", plainDocument(embedded("static/docs/start.js"), "text/javascript; charset=utf-8", "")},
		{
			"/docs/assets/swagger-ui.css",
			zippedDocument(embedded(vendored+"swagger-ui.css.gz"), "text/css; charset=utf-8", unzip),
		},
		{
			"/docs/assets/swagger-ui-bundle.js",
			zippedDocument(embedded(vendored+"swagger-ui-bundle.js.gz"), "text/javascript; charset=utf-8", unzip),
		},
	}
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

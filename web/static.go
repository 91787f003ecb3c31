package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
)

// file is one static file: as it is, and zipped.
type file struct {
	name        string
	contentType string
	plain, gzip []byte
}

// vendored are the files of others that the pages use, zipped in the binary.
var vendored = map[string]string{
	"uplot.js":  "static/vendor/uplot/uPlot.iife.min.js.gz",
	"uplot.css": "static/vendor/uplot/uPlot.min.css.gz",
}

var contentTypes = map[string]string{
	".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
}

// files are all static files of the pages, by name. The parts of the style sheet are one file.
func files() map[string]*file {
	all := map[string]*file{}
	add := func(name string, plain []byte) {
		all[name] = &file{name: name, contentType: contentTypes[path.Ext(name)], plain: plain, gzip: zip(plain)}
	}
	own, err := fs.ReadDir(static, "static/face")
	if err != nil {
		panic(err) // embedded
	}
	for _, f := range own {
		if !f.IsDir() {
			add(f.Name(), embedded("static/face/"+f.Name()))
		}
	}
	parts, err := fs.ReadDir(static, "static/face/css")
	if err != nil {
		panic(err)
	}
	var sheet bytes.Buffer
	for _, p := range parts { // by name: 1-, 2-, ...
		sheet.Write(embedded("static/face/css/" + p.Name()))
	}
	for name, zipped := range vendored {
		plain := unzip(embedded(zipped))
		if name == "uplot.css" {
			sheet.Write(plain)
			continue
		}
		add(name, plain)
	}
	add("face.css", sheet.Bytes())
	return all
}

func embedded(name string) []byte {
	body, err := fs.ReadFile(static, name)
	if err != nil {
		panic(err) // the file is named in this package and embedded
	}
	return body
}

func zip(plain []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		panic(err)
	}
	_, _ = w.Write(plain) // a buffer takes everything
	_ = w.Close()
	return b.Bytes()
}

// workerPolicy lets a worker listen to this server, and nothing else.
const workerPolicy = "default-src 'none'; connect-src 'self'; frame-ancestors 'none'"

// digest names what is in all files: modules import each other by relative names, so one changed file renames them all.
func digest(all map[string]*file) string {
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	h := sha256.New()
	for _, name := range names {
		h.Write([]byte(name + "\x00" + strconv.Itoa(len(all[name].plain)) + "\x00"))
		h.Write(all[name].plain)
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// handler answers with the file, and lets browsers keep it for good: its address changes with what is in it.
func (f *file) handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", f.contentType)
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
		h.Set("X-Content-Type-Options", "nosniff")
		if strings.HasSuffix(f.name, "-worker.js") { // a worker has the policy of its file, not of the page that started it
			h.Set("Content-Security-Policy", workerPolicy)
		}
		h.Set("Vary", "Accept-Encoding")
		out := f.plain
		if takesGzip(r.Header.Values("Accept-Encoding")) {
			h.Set("Content-Encoding", "gzip")
			out = f.gzip
		}
		h.Set("Content-Length", strconv.Itoa(len(out)))
		w.WriteHeader(http.StatusOK)
		if r.Method != http.MethodHead {
			_, _ = w.Write(out) // a browser that left asks again
		}
	})
}

// script says whether a file counts against the pages' size.
func (f *file) script() bool {
	return strings.HasSuffix(f.name, ".js") || strings.HasSuffix(f.name, ".css")
}

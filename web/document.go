package web

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// document is a file whose address stays the same when its content changes: browsers ask each time whether it did.
type document struct {
	contentType, policy string
	zipped              *variant        // nil: the document is only there as it is
	plain               func() *variant // makes it at the first call
}

// variant is one encoding of a document, with the ETag that names its bytes.
type variant struct {
	body []byte
	etag string
}

func newVariant(body []byte) *variant {
	sum := sha256.Sum256(body)
	return &variant{body: body, etag: `"` + hex.EncodeToString(sum[:16]) + `"`}
}

// plainDocument serves body as it is.
func plainDocument(body []byte, contentType, policy string) http.Handler {
	plain := newVariant(body)
	return &document{contentType: contentType, policy: policy, plain: func() *variant { return plain }}
}

// zippedDocument serves a body that is zipped in the binary: as it is to clients that accept gzip. Other clients get
// the unzipped bytes, which the first of them has made for all.
func zippedDocument(zipped []byte, contentType string, unzip func([]byte) []byte) http.Handler {
	return &document{
		contentType: contentType,
		zipped:      newVariant(zipped),
		plain:       sync.OnceValue(func() *variant { return newVariant(unzip(zipped)) }),
	}
}

func (d *document) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", d.contentType)
	h.Set("Cache-Control", "no-cache")
	if d.policy != "" {
		h.Set("Content-Security-Policy", d.policy)
	}
	v := d.zipped
	if d.zipped != nil {
		h.Set("Vary", "Accept-Encoding")
	}
	if d.zipped != nil && takesGzip(r.Header.Values("Accept-Encoding")) {
		h.Set("Content-Encoding", "gzip")
	} else {
		v = d.plain()
	}
	h.Set("ETag", v.etag)
	if hasETag(r.Header.Values("If-None-Match"), v.etag) {
		h.Del("Content-Type")
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(v.body)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(v.body) // a browser that left asks again
	}
}

// hasETag says whether an If-None-Match names an ETag. Our ETags have no comma in them, and proxies that zip an answer
// themselves make a weak ETag (W/) of it.
func hasETag(headers []string, etag string) bool {
	for _, h := range headers {
		for one := range strings.SplitSeq(h, ",") {
			if one = strings.TrimSpace(one); one == "*" || strings.TrimPrefix(one, "W/") == etag {
				return true
			}
		}
	}
	return false
}

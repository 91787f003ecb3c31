package handlers

import (
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"github.com/tierq/tierq/internal/handler"
)

const (
	maxHeaders     = 20
	maxHeaderName  = 100      // bytes
	maxHeaderValue = 4096     // bytes
	maxHeaderBytes = 16 << 10 // of all headers together
)

// reserved headers are set by tierq or control the connection, so users cannot set them. The same holds for
// headers that begin with a reserved prefix.
var (
	reserved = []string{
		"Host", "Content-Length", "Content-Encoding", "Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding",
		"Upgrade", "Expect",
		"Accept-Encoding", "Traceparent", "Tracestate", "X-Trace-Id", "User-Agent", "Forwarded", "X-Real-Ip",
	}
	reservedPrefixes = []string{"Webhook-", "X-Job-", "Proxy", "X-Forwarded-", "Sec-"}
)

// checkHeaders returns the errors in a user's headers. An error shows a header's name only if it is a valid name.
func checkHeaders(headers map[string]string) []error {
	if len(headers) > maxHeaders {
		reason := fmt.Sprintf("has %d headers, the most is %d", len(headers), maxHeaders)
		return []error{&handler.PayloadError{Field: "payload.headers", Reason: reason}}
	}
	var wrong []error
	bad := func(name, reason string) {
		wrong = append(wrong, &handler.PayloadError{Field: "payload.headers" + name, Reason: reason})
	}
	seen, size := map[string]bool{}, 0
	for _, name := range slices.Sorted(maps.Keys(headers)) { // a map has no order, the errors should
		value := headers[name]
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		size += len(name) + len(value)
		switch {
		case !isToken(name):
			bad("", "has a name that no header can have")
		case isReserved(canonical):
			bad("."+name, "is set by tierq or by the connection")
		case seen[canonical]:
			bad("."+name, "is there twice")
		case len(value) > maxHeaderValue ||
			strings.ContainsFunc(value, func(r rune) bool { return r != '\t' && (r < ' ' || r > '~') }):
			bad("."+name, fmt.Sprintf("is not printable ASCII of at most %d bytes", maxHeaderValue))
		}
		seen[canonical] = true
	}
	if size > maxHeaderBytes {
		bad("", fmt.Sprintf("has %d bytes, the most is %d", size, maxHeaderBytes))
	}
	slices.SortFunc(wrong, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return wrong
}

func isReserved(canonical string) bool {
	begins := func(prefix string) bool { return strings.HasPrefix(canonical, prefix) }
	return slices.Contains(reserved, canonical) || slices.ContainsFunc(reservedPrefixes, begins)
}

func isToken(name string) bool {
	const token = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	return name != "" && len(name) <= maxHeaderName && strings.Trim(name, token) == ""
}

func headersOf(headers map[string]string) http.Header {
	h := http.Header{}
	for name, value := range headers {
		h.Set(name, value)
	}
	return h
}

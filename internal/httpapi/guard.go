package httpapi

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
)

// The headers of every answer. All answers share the slices, and no code may write to them.
var (
	nosniff  = []string{"nosniff"}
	deny     = []string{"DENY"}
	policy   = []string{"default-src 'none'; frame-ancestors 'none'"}
	referrer = []string{"no-referrer"}
	noStore  = []string{"no-store"}
	hsts     = []string{"max-age=31536000"} // only over TLS
)

const traceHeader = "X-Trace-Id"

// guard wraps every handler: it sets the headers and the trace id, contains panics, and logs each request at debug
// level.
func (a *api) guard(c *gin.Context) {
	a.head(c, []string{traceFrom(c.Request.Header)})
	defer a.contain(c)
	if !a.Log.Enabled(c.Request.Context(), slog.LevelDebug) {
		c.Next()
		return
	}
	begun := time.Now()
	c.Next()
	a.Log.Debug("request", "method", method(c.Request.Method), "route", c.FullPath(), "status", c.Writer.Status(),
		"ms", float64(time.Since(begun).Microseconds())/1000, "trace_id", traceOf(c))
}

// head sets the headers of every answer. A handler may overwrite them.
func (a *api) head(c *gin.Context, trace []string) {
	h := c.Writer.Header()
	h["X-Content-Type-Options"] = nosniff
	h["X-Frame-Options"] = deny
	h["Content-Security-Policy"] = policy
	h["Referrer-Policy"] = referrer
	h["Cache-Control"] = noStore
	h[traceHeader] = trace
	if a.secure(c.Request) {
		h["Strict-Transport-Security"] = hsts
	}
}

// contain recovers from a panic of a handler: its stack goes to the log, and the client gets an INTERNAL error.
func (a *api) contain(c *gin.Context) {
	r := recover()
	if r == nil {
		return
	}
	if err, ok := r.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(r)
	}
	a.Log.Error("panic in a handler", "route", c.FullPath(), "err", fmt.Sprint(r), "stack", string(debug.Stack()),
		"trace_id", traceOf(c))
	if c.Writer.Written() {
		panic(http.ErrAbortHandler) // the answer has begun: only a closed connection shows the error
	}
	h := c.Writer.Header()
	trace := h[traceHeader]
	clear(h) // headers of the handler, such as a length or a cache rule, do not fit this answer
	a.head(c, trace)
	a.fail(c, &problem{kind: internalError, close: true})
}

// method returns m for the log, and OTHER in place of a word that is no HTTP method.
func method(m string) string {
	switch m {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT":
		return m
	}
	return "OTHER"
}

// traceOf returns the request's trace id, which the answer's header holds.
func traceOf(c *gin.Context) string { return c.Writer.Header()[traceHeader][0] }

// traceFrom returns the trace id that the caller sent, in traceparent or else in X-Trace-Id. It ignores a malformed
// one; without a valid one it makes a new id.
func traceFrom(h http.Header) string {
	if v := h["Traceparent"]; len(v) == 1 {
		if id := traceID(v[0]); id != "" {
			return id
		}
	}
	if v := h[traceHeader]; len(v) == 1 && plain(v[0]) {
		return v[0]
	}
	return newTraceID()
}

// newTraceID returns a random id. It must be unique, not secret.
func newTraceID() string {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	return hex.EncodeToString(id[:])
}

// traceID returns the trace id in W3C's traceparent, 00-<trace id>-<span id>-<flags>; "" if the text is not valid.
func traceID(v string) string {
	if len(v) < 55 || v[2] != '-' || v[35] != '-' || v[52] != '-' || !hexadecimal(v[:2]) || v[:2] == "ff" ||
		!hexadecimal(v[36:52]) || !hexadecimal(v[53:55]) {
		return ""
	}
	if len(v) > 55 && (v[:2] == "00" || v[55] != '-') { // later versions may add members
		return ""
	}
	id := v[3:35]
	if !hexadecimal(id) || strings.Trim(id, "0") == "" || strings.Trim(v[36:52], "0") == "" {
		return ""
	}
	return id
}

// spanFrom returns the caller's span id from traceparent; "" if there is none.
func spanFrom(h http.Header) string {
	if v := h["Traceparent"]; len(v) == 1 && traceID(v[0]) != "" {
		return v[0][36:52]
	}
	return ""
}

func hexadecimal(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// plain reports whether a caller's trace id may be stored and logged: 1 to 64 of A-Z a-z 0-9 . _ -
func plain(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= 64
}

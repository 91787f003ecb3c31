package httpapi

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
)

// What net/http would do by itself with a body that nobody read, before it writes an answer: it takes so much of it,
// for as long as the request may take. That is how a refused caller would keep his seat.
const (
	mostLeftover  = 256 << 10
	leftoverLimit = time.Second
)

// leftover gives the rest of a body a second once there is an answer, and lets its connection be sent away meanwhile: a
// body that is meant well has been sent by then, or is on its way. HTTP/2 reads no such rest.
func leftover(c *gin.Context) {
	r := c.Request
	if r.ContentLength == 0 || r.ProtoMajor != 1 {
		return
	}
	w := answers.Get().(*answering)
	*w = answering{ResponseWriter: c.Writer, r: r}
	defer func() {
		c.Writer = w.ResponseWriter
		*w = answering{}
		answers.Put(w)
	}()
	c.Writer = w
	c.Next()
	w.finish()
	if expecting(r) {
		c.Writer.Flush() // what comes now is net/http's look at whether the body comes after all
		seatOf(r).linger(true)
	}
}

// expecting says whether a client sends its body only when it is asked to, by the reading of it.
func expecting(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Expect"), "100-continue")
}

var answers = sync.Pool{New: func() any { return new(answering) }}

// answering takes the rest of the request's body before the first byte of the answer.
type answering struct {
	gin.ResponseWriter
	r    *http.Request
	done bool
}

// Unwrap is what net/http's ResponseController looks for.
func (w *answering) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *answering) WriteHeaderNow() {
	w.finish()
	w.ResponseWriter.WriteHeaderNow()
}

func (w *answering) Write(b []byte) (int, error) {
	w.finish()
	return w.ResponseWriter.Write(b)
}

func (w *answering) WriteString(s string) (int, error) {
	w.finish()
	return w.ResponseWriter.WriteString(s)
}

func (w *answering) Flush() {
	w.finish()
	w.ResponseWriter.Flush()
}

func (w *answering) finish() {
	if w.done {
		return
	}
	w.done = true
	control := http.NewResponseController(w.ResponseWriter)
	if control.SetReadDeadline(time.Now().Add(leftoverLimit)) != nil {
		return // no connection of its own: a page asks
	}
	if w.r.ContentLength > mostLeftover || expecting(w.r) {
		return // net/http closes these connections
	}
	seat := seatOf(w.r)
	seat.linger(true)
	_, err := io.CopyN(io.Discard, w.r.Body, mostLeftover+1)
	seat.linger(false)
	if err == io.EOF { //nolint:errorlint // net/http's body says nothing else at its end
		// net/http listens whether the client leaves, for as long as the answer takes
		_ = control.SetReadDeadline(time.Time{})
		return
	}
	w.Header().Set("Connection", "close")
}

type seatKey struct{}

// seatOf is the seat of a request's connection; nil = it has none.
func seatOf(r *http.Request) *seated {
	seat, _ := r.Context().Value(seatKey{}).(*seated)
	return seat
}

// withSeat is http.Server's ConnContext: a request finds its connection's seat.
func withSeat(ctx context.Context, nc net.Conn) context.Context {
	if c, ok := nc.(*seated); ok {
		return context.WithValue(ctx, seatKey{}, c)
	}
	return ctx
}

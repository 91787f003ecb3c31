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

// The bounds for reading the rest of a body that no handler read. net/http itself reads up to 256 KiB of it before
// it writes the answer, for as long as the request may take: a refused client could keep its connection that way.
const (
	mostLeftover  = 256 << 10
	leftoverLimit = time.Second
)

// leftover gives a client one second to send the rest of its body once there is an answer. Meanwhile its connection
// may be closed for a new one. An honest client has sent the rest by then, or it is on its way. HTTP/2 reads no
// such rest.
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
		c.Writer.Flush() // net/http now checks whether the body comes after all
		seatOf(r).linger(true)
	}
}

// expecting reports whether the client sends its body only after the server has begun to read it (100-continue).
func expecting(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Expect"), "100-continue")
}

var answers = sync.Pool{New: func() any { return new(answering) }}

// answering is a ResponseWriter that reads the rest of the request's body before the first byte of the answer.
type answering struct {
	gin.ResponseWriter
	r    *http.Request
	done bool
}

// Unwrap makes the methods of net/http's ResponseController work.
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
		return // there is no connection: a page of this process calls the API
	}
	if w.r.ContentLength > mostLeftover || expecting(w.r) {
		return // net/http closes these connections
	}
	seat := seatOf(w.r)
	seat.linger(true)
	_, err := io.CopyN(io.Discard, w.r.Body, mostLeftover+1)
	seat.linger(false)
	if err == io.EOF { //nolint:errorlint // net/http's body returns io.EOF itself at its end
		// net/http keeps reading while the answer is made, to notice that the client leaves. It needs no deadline for
		// that.
		_ = control.SetReadDeadline(time.Time{})
		return
	}
	w.Header().Set("Connection", "close")
}

type seatKey struct{}

// seatOf returns the seat of a request's connection; nil if it has none.
func seatOf(r *http.Request) *seated {
	seat, _ := r.Context().Value(seatKey{}).(*seated)
	return seat
}

// withSeat is http.Server's ConnContext hook: it puts the connection's seat into the context of each request.
func withSeat(ctx context.Context, nc net.Conn) context.Context {
	if c, ok := nc.(*seated); ok {
		return context.WithValue(ctx, seatKey{}, c)
	}
	return ctx
}

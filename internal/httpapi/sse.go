package httpapi

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
)

// The times of a stream.
const (
	// the time between pings: each keeps proxies from closing the stream, and checks that the caller may still listen
	pingEvery  = 15 * time.Second
	writeLimit = 10 * time.Second // time for one write to the client
)

// stream writes Server-Sent Events. The headers go out with the first event, so that an error before it gets an
// ordinary answer.
type stream struct {
	c       *gin.Context
	control *http.ResponseController
	stop    context.CancelFunc // called when the client does not read any more, or may not
	may     func() bool

	mu    sync.Mutex
	begun bool
	group sync.WaitGroup
}

// openStream prepares a stream and sends pings until close is called. The returned context ends when the client
// leaves, and when its key is not valid any more.
func (a *api) openStream(c *gin.Context) (*stream, context.Context) {
	ctx, cancel := context.WithCancel(c.Request.Context())
	r, caller := c.Request.WithContext(ctx), *callerOf(c)
	s := &stream{c: c, control: http.NewResponseController(c.Writer), stop: cancel,
		may: func() bool { return a.still(r, &caller) }}
	s.group.Go(func() { s.ping(ctx) })
	return s, ctx
}

// close ends the pings. It may be called twice.
func (s *stream) close() {
	s.stop()
	s.group.Wait()
}

func (s *stream) ping(ctx context.Context) {
	ticker := time.NewTicker(pingEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if !s.may() {
			s.stop()
			return
		}
		s.mu.Lock()
		if s.begun && s.write([]byte(": ping\n\n")) != nil {
			s.stop()
		}
		s.mu.Unlock()
	}
}

// start sends the headers, and the time after which the client reconnects.
func (s *stream) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begin()
}

func (s *stream) begin() error {
	if s.begun {
		return nil
	}
	s.begun = true
	h := s.c.Writer.Header()
	h["Content-Type"] = []string{"text/event-stream"}
	h["Cache-Control"] = []string{"no-cache"}
	h["X-Accel-Buffering"] = []string{"no"}
	s.c.Writer.WriteHeader(http.StatusOK)
	return s.write([]byte("retry: 2000\n\n"))
}

// send writes one event. With the id "" the client keeps its last event id.
func (s *stream) send(event, id string, data []byte) error {
	var b bytes.Buffer
	b.WriteString("event: " + event + "\n")
	if id != "" {
		b.WriteString("id: " + strings.NewReplacer("\n", "", "\r", "", "\x00", "").Replace(id) + "\n")
	}
	for line := range bytes.SplitSeq(bytes.ReplaceAll(data, []byte("\r"), nil), []byte("\n")) {
		b.WriteString("data: ")
		b.Write(line)
		b.WriteString("\n")
	}
	b.WriteString("\n")
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.begin(); err != nil {
		return err
	}
	return s.write(b.Bytes())
}

// bye sends the event that tells the client that no more events come on this stream.
func (s *stream) bye() { _ = s.send("bye", "", []byte("{}")) }

func (s *stream) write(text []byte) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(writeLimit))
	if _, err := s.c.Writer.Write(text); err != nil {
		return err
	}
	return s.control.Flush()
}

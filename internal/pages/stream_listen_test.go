package pages

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

// source is a fake source of snapshots.
type source struct {
	mu    sync.Mutex
	calls int
	err   error
	hang  bool
	dies  bool
}

func (s *source) read(ctx context.Context) (any, error) {
	s.mu.Lock()
	s.calls++
	n, err, hang, dies := s.calls, s.err, s.hang, s.dies
	s.mu.Unlock()
	if hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if dies {
		panic("hunter2")
	}
	return map[string]any{"n": n, "text": "<b>\n&"}, err
}

func (s *source) set(change func(*source)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *source) made() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// browser is one listener. It reads nothing while it is frozen.
type browser struct {
	mu       sync.Mutex
	header   http.Header
	status   int
	text     bytes.Buffer
	frozen   chan struct{} // closed when it reads again; nil = it reads
	deadline time.Time
	pings    int // how many pings got has seen
	leave    context.CancelFunc
	done     chan struct{}
}

func (b *browser) Header() http.Header    { return b.header }
func (b *browser) WriteHeader(status int) { b.status = status }
func (b *browser) Flush()                 {}

func (b *browser) SetWriteDeadline(t time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deadline = t
	return nil
}

func (b *browser) Write(text []byte) (int, error) {
	b.mu.Lock()
	frozen, deadline := b.frozen, b.deadline
	b.mu.Unlock()
	if frozen != nil {
		select {
		case <-frozen:
		case <-time.After(time.Until(deadline)):
			return 0, os.ErrDeadlineExceeded
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(text)
}

func (b *browser) freeze() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.frozen = make(chan struct{})
}

func (b *browser) thaw() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.frozen)
	b.frozen = nil
}

// got returns what was read since the last call: for each event the name, and a short form of its data.
func (b *browser) got() string {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []string
	for one := range strings.SplitSeq(strings.TrimSuffix(b.text.String(), "\n\n"), "\n\n") {
		name, rest, _ := strings.Cut(one, "\n")
		if name == ": ping" {
			b.pings++
			continue
		}
		name = strings.TrimPrefix(name, "event: ")
		_, data, _ := strings.Cut(rest, "data: ")
		var known struct {
			N      any
			Reason string
		}
		if name != "resync" && name != "bye" && json.Unmarshal([]byte(data), &known) == nil {
			name = fmt.Sprint(name, " ", known.N, known.Reason)
		}
		all = append(all, strings.ReplaceAll(strings.ReplaceAll(name, "<nil>", ""), "snapshot ", "s"))
	}
	b.text.Reset()
	return strings.Join(all, ", ")
}

func (b *browser) ended() bool {
	synctest.Wait()
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// listen opens a stream.
func listen(h *Hub, target string, header ...string) *browser {
	ctx, cancel := context.WithCancel(context.Background())
	r := httptest.NewRequestWithContext(ctx, "GET", "/dashboard/stream"+target, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	b := &browser{header: http.Header{}, leave: cancel, done: make(chan struct{})}
	go func() {
		defer close(b.done)
		h.ServeHTTP(b, r)
	}()
	synctest.Wait()
	return b
}

// inBubble runs a test with a hub in virtual time. At the end no goroutine is left.
func inBubble(t *testing.T, o HubOptions, test func(t *testing.T, h *Hub, s *source)) {
	t.Helper()
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		o.Snapshot = s.read
		h := NewHub(o)
		defer func() {
			if err := h.Stop(context.Background()); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			if n := h.Listeners(); n != 0 {
				t.Errorf("%d listen after the end", n)
			}
		}()
		test(t, h, s)
	})
}

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: %q, want %q", what, got, want)
	}
}

func pass(d time.Duration) { <-time.After(d) }

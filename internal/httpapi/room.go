package httpapi

import (
	"errors"
	"io"
	"slices"
	"sync/atomic"

	"github.com/gin-gonic/gin"
)

// firstPiece is what a body gets at first.
const firstPiece = 4 << 10

// shared is memory that bodies have together while they are on their way.
type shared struct {
	taken *atomic.Int64
	most  int64
	full  string // what is said to who finds none left
}

// The memory of batches, and of other bodies: of these what is beyond their first piece. Both until they are answered.
const (
	batchMemory = 96 << 20
	bodyMemory  = 64 << 20
)

func (a *api) batchMemory() shared {
	return shared{&a.batches, batchMemory, "too many batches are being read; send it again"}
}

func (a *api) bodyMemory() shared {
	return shared{&a.bodies, bodyMemory, "too many bodies are being read; send it again"}
}

// gather reads a body of so many bytes, or if that is negative one of unknown length, to its end. It takes memory as
// bytes come, not as a header promises: ten thousand callers who send slowly hold no more of it than a thousand. Free
// bytes of it are not shared memory. What is held is for the caller to give back, after an error too.
func (s shared) gather(r io.Reader, length, free int64) (body []byte, held int64, err error) {
	for length < 0 || int64(len(body)) < length {
		if len(body) == cap(body) {
			more := int64(max(cap(body), firstPiece))
			if length >= 0 {
				more = min(more, length-int64(len(body)))
			}
			body = slices.Grow(body, int(more))
			more = max(0, int64(cap(body))-free) - held
			held += more
			if s.taken.Add(more) > s.most {
				return nil, held, &problem{kind: systemUnhealthy, detail: s.full, close: true}
			}
		}
		n, err := r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case errors.Is(err, io.EOF) && int64(len(body)) < length:
			return nil, held, io.ErrUnexpectedEOF
		case errors.Is(err, io.EOF):
			return body, held, nil
		case err != nil:
			return nil, held, err
		}
	}
	return body, held, nil
}

// crowd refuses what is more than may be under way: one HTTP/2 connection brings a hundred requests at once, and each
// has memory of its own.
func (a *api) crowd(c *gin.Context) {
	if a.Requests <= 0 {
		return
	}
	defer a.requests.Add(-1)
	if a.requests.Add(1) > int64(a.Requests) {
		a.fail(c, &problem{kind: systemUnhealthy, detail: "too many requests are under way; send it again"})
		return
	}
	c.Next()
}

package httpapi

import (
	"errors"
	"io"
	"slices"
	"sync/atomic"

	"github.com/gin-gonic/gin"
)

// firstPiece is the number of bytes that are reserved for a body at first.
const firstPiece = 4 << 10

// shared is memory that bodies of one kind have in common while they are read and answered.
type shared struct {
	taken *atomic.Int64
	most  int64
	full  string // detail of the refusal if none is left
}

// The memory of batches, and of other bodies beyond their first piece. A body holds its memory until it is
// answered.
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

// gather reads a body of length bytes to its end; negative = of unknown length. It reserves memory as bytes arrive,
// whatever a header promises: firstPiece at first, then at most four times what has arrived, so that slow senders hold
// little. The first free bytes of a body do not count as shared memory. The caller must give back held, after an error
// too.
func (s shared) gather(r io.Reader, length, free int64) (body []byte, held int64, err error) {
	for length < 0 || int64(len(body)) < length {
		if len(body) == cap(body) {
			more := int64(max(cap(body), firstPiece))
			if length >= 0 {
				more = min(int64(max(3*cap(body), firstPiece)), length-int64(len(body))) // few steps: each copies the body
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

// crowd refuses requests beyond the number that may be under way. One HTTP/2 connection brings a hundred requests
// at once, and each needs memory.
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

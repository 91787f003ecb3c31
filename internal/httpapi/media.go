package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"

	"github.com/gin-gonic/gin"
)

func tooLarge(detail string) *problem {
	return &problem{kind: payloadTooLarge, detail: detail, close: true}
}

// readOptional reads the body of a request that may have none; then it leaves into unchanged.
func readOptional[T any](a *api, c *gin.Context, s *shape[T], into *T) error {
	body, err := a.readBody(c)
	if err != nil || body == nil {
		return err
	}
	return s.read(body, into)
}

// readBody reads the whole body once, within its limit. It returns nil for an empty body, whatever its Content-Type
// is. Any other body must be JSON in UTF-8, not compressed.
func (a *api) readBody(c *gin.Context) ([]byte, error) {
	r := c.Request
	if err := checkEncoding(r.Header["Content-Encoding"]); err != nil {
		return nil, err
	}
	if r.ContentLength == 0 {
		return nil, nil
	}
	if r.ContentLength > a.bodyLimit {
		return nil, tooLong(a.bodyLimit)
	}
	if r.ContentLength > 0 { // else: chunked; it may be empty
		if err := checkType(r.Header["Content-Type"]); err != nil {
			return nil, err
		}
	}
	var from io.Reader = r.Body // net/http reads no more than a known length
	if r.ContentLength < 0 {
		from = http.MaxBytesReader(c.Writer, r.Body, a.bodyLimit)
	}
	body, held, err := a.bodyMemory().gather(from, r.ContentLength, firstPiece)
	if v, ok := c.Keys[visitKey].(*visit); ok {
		v.held += held // held until the answer: a submit keeps its body while it waits
	} else {
		a.bodies.Add(-held)
	}
	if err != nil {
		return nil, unread(r, err)
	}
	if w, ok := c.Writer.(*answering); ok {
		w.done = true // the body is read to its end
	}
	if blank(body) {
		return nil, nil
	}
	return body, checkType(r.Header["Content-Type"])
}

// unread returns the error for a body that could not be read to its end.
func unread(r *http.Request, err error) error {
	var over *http.MaxBytesError
	var full *problem
	switch {
	case errors.As(err, &full):
		return full
	case errors.As(err, &over):
		return tooLong(over.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded): // net/http ends the context too; the client is still there
		return &problem{kind: invalidRequest, detail: "the body did not arrive in time", close: true}
	case r.Context().Err() != nil:
		return r.Context().Err()
	}
	return &problem{kind: invalidRequest, detail: "the body could not be read to its end", close: true}
}

func blank(text []byte) bool { return len(bytes.TrimLeft(text, " \t\r\n")) == 0 }

func tooLong(limit int64) *problem {
	return tooLarge(fmt.Sprintf("the body has more than %d bytes", limit))
}

func checkEncoding(values []string) error {
	for _, v := range values {
		if v != "" && !strings.EqualFold(v, "identity") {
			return &problem{kind: unsupportedMedia, detail: "Content-Encoding: compressed bodies are not taken", close: true}
		}
	}
	return nil
}

// checkType requires a JSON media type. Its errors say what to send instead, because many tools choose a type
// themselves.
func checkType(values []string) error {
	if len(values) == 1 && values[0] == "application/json" {
		return nil
	}
	refuse := func(detail string) error { return &problem{kind: unsupportedMedia, detail: detail} }
	if len(values) == 0 {
		return refuse("a body needs the header Content-Type: application/json")
	}
	if len(values) > 1 {
		return refuse("Content-Type: sent more than once")
	}
	media, params, err := mime.ParseMediaType(values[0])
	if err != nil {
		return refuse("Content-Type: cannot be read; send application/json")
	}
	if media == "application/x-www-form-urlencoded" {
		return refuse("Content-Type: a form is not JSON (it is what curl -d sends by itself); add -H 'Content-Type: " +
			"application/json', or use curl --json")
	}
	if media != "application/json" && (!strings.HasPrefix(media, "application/") || !strings.HasSuffix(media, "+json")) {
		return refuse("Content-Type: send application/json")
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return refuse("Content-Type: the charset must be utf-8")
	}
	return nil
}

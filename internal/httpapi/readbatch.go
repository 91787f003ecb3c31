package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json/jsontext"
)

// The bounds of a batch.
const (
	maxEntries    = 1000
	maxBatchBytes = 16 << 20
	batchArrival  = time.Minute // for the body: 16 MiB take longer than the 15 s of a small one
)

// readBatch reads the body of a batch and splits it into entries, which are not checked yet. It reserves memory as
// bytes arrive, whatever the header promises, and refuses the batch if all batches together hold too much. done
// releases the memory, and must be called after an error too.
func (a *api) readBatch(c *gin.Context) (entries [][]byte, done func(), err error) {
	var split func([]byte) ([][]byte, error)
	body, done, err := a.readLarge(c, func(contentType []string) (err error) {
		split, err = splitter(contentType)
		return err
	})
	if err != nil {
		return nil, done, err
	}
	if blank(body) {
		return nil, done, &problem{kind: invalidRequest,
			detail: "a batch needs a body: a JSON array, or a JSON object per line"}
	}
	entries, err = split(body)
	if err == nil && len(entries) > maxEntries {
		err = tooLarge(fmt.Sprintf("the batch has more than %d entries", maxEntries))
	}
	return entries, done, err
}

// readLarge reads a body of up to maxBatchBytes, of a media type that accept takes, as readBatch does. done releases
// its memory, and must be called after an error too.
func (a *api) readLarge(c *gin.Context, accept func(contentType []string) error) (body []byte, done func(), err error) {
	held := int64(0)
	done = func() { a.batches.Add(-held) }
	r := c.Request
	if err := checkEncoding(r.Header["Content-Encoding"]); err != nil {
		return nil, done, err
	}
	if r.ContentLength > maxBatchBytes {
		return nil, done, tooLong(maxBatchBytes)
	}
	if err := accept(r.Header["Content-Type"]); err != nil && r.ContentLength != 0 {
		return nil, done, err
	}
	// without this deadline, the server's own deadline holds
	_ = http.NewResponseController(c.Writer).SetReadDeadline(time.Now().Add(batchArrival))
	if body, held, err = a.batchMemory().gather(http.MaxBytesReader(c.Writer, r.Body, maxBatchBytes), r.ContentLength,
		0); err != nil {
		return nil, done, unread(r, err)
	}
	return body, done, nil
}

// splitter returns the function that splits a batch of this media type into its entries: the items of a JSON array,
// or the lines of application/x-ndjson.
func splitter(contentType []string) (func([]byte) ([][]byte, error), error) {
	if len(contentType) == 1 {
		if media, _, err := mime.ParseMediaType(contentType[0]); err == nil && media == "application/x-ndjson" {
			return splitLines, nil
		}
	}
	return splitArray, checkType(contentType)
}

func splitLines(text []byte) (lines [][]byte, err error) {
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		if line = bytes.TrimSpace(line); len(line) > 0 && len(lines) <= maxEntries {
			lines = append(lines, line)
		}
	}
	return lines, nil
}

func splitArray(text []byte) ([][]byte, error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if d.PeekKind() != '[' {
		if _, err := d.ReadValue(); err != nil {
			return nil, badJSON(err)
		}
		return nil, &problem{kind: invalidRequest, detail: "the body must be a JSON array"}
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, badJSON(err)
	}
	var items [][]byte
	for d.PeekKind() != ']' {
		value, err := d.ReadValue()
		if err != nil {
			return nil, badJSON(err)
		}
		end := d.InputOffset()
		if items = append(items, text[end-int64(len(value)):end:end]); len(items) > maxEntries {
			return items, nil
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, badJSON(err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, &problem{kind: invalidRequest, detail: "the body goes on after the JSON array"}
	}
	return items, nil
}

package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/gin-gonic/gin"
)

// artifact serves GET /jobs/{id}/artifact: it sends the file that a job made, as an attachment.
func (a *api) artifact(c *gin.Context) error {
	id, err := bareID(c)
	if err != nil {
		return err
	}
	if err := a.known(c, id); err != nil {
		return aboutJob(err, id)
	}
	if err := a.fileVeiled(c, id); err != nil {
		return aboutJob(err, id)
	}
	ctx, cancel := context.WithTimeout(c.Request.Context(), transfer)
	defer cancel()
	body, name, contentType, size, err := a.Artifacts.Artifact(ctx, id)
	if err != nil {
		return aboutJob(err, id)
	}
	defer body.Close()
	h := c.Writer.Header()
	h["Content-Type"] = []string{mediaType(contentType)}
	h["Content-Disposition"] = []string{attachment(name)}
	if size >= 0 {
		h["Content-Length"] = []string{strconv.FormatInt(size, 10)}
	}
	c.Writer.WriteHeader(http.StatusOK)
	if c.Request.Method == http.MethodHead {
		c.Writer.WriteHeaderNow()
		return nil
	}
	if err := pour(c, body); err != nil {
		return a.breakOff(c, "artifact", err)
	}
	return nil
}

// transfer bounds the time that sending one file, or one export, may take.
const transfer = 10 * time.Minute

// pour copies a file to the client. Each piece of 64 KiB has its own write deadline. If the file is not as long as
// its Content-Length says, net/http breaks the connection off.
func pour(c *gin.Context, body io.Reader) error {
	piece := make([]byte, 64<<10)
	for {
		n, err := body.Read(piece)
		if n > 0 {
			extend(c, operation)
			if _, err := c.Writer.Write(piece[:n]); err != nil {
				return fmt.Errorf("write: %w", err)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read: %w", err)
		}
	}
}

// mediaType returns a file's media type in a form that a header may contain; application/octet-stream if it cannot
// be parsed or written.
func mediaType(s string) string {
	media, params, err := mime.ParseMediaType(s)
	if err != nil {
		return "application/octet-stream"
	}
	if s = mime.FormatMediaType(media, params); s == "" {
		return "application/octet-stream"
	}
	return s
}

// attachment returns the Content-Disposition (RFC 6266) for a file name. The parameter filename has the name in
// plain ASCII; filename* has the whole name, and is added only if plain ASCII changes it.
func attachment(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, name)
	if name = strings.TrimLeft(name, ". "); name == "" {
		name = "artifact"
	}
	plain := strings.Map(func(r rune) rune {
		if r > '~' || r == '"' || r == '%' {
			return '_'
		}
		return r
	}, name)
	value := `attachment; filename="` + plain + `"`
	if plain != name {
		value += "; filename*=UTF-8''" + strings.ReplaceAll(url.QueryEscape(name), "+", "%20")
	}
	return value
}

package pages

import (
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode"
)

const (
	mostForm   = 2 << 20  // bytes of one form: the largest payload there may be, with every byte of it escaped
	formMemory = 64 << 20 // of all forms until they are answered
	firstPiece = 4 << 10
)

// form reads what a form sent. It takes memory as bytes come, and with all others no more than there is. The error is a *apiError.
func (p *Pages) form(r *http.Request) (url.Values, error) {
	refuse := func(status int, code, detail string) error {
		return &apiError{Status: status, Code: code, Detail: detail}
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/x-www-form-urlencoded" {
		return nil, refuse(http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE", "A form is sent as application/x-www-form-urlencoded.")
	}
	v := visitOf(r)
	if v == nil {
		v = &visit{}
		defer func() { p.forms.Add(-v.held) }()
	}
	var text []byte
	for whole := false; !whole; {
		if len(text) == cap(text) {
			more := max(cap(text), firstPiece)
			v.held += int64(more)
			if p.forms.Add(int64(more)) > formMemory { // before it is taken
				return nil, refuse(http.StatusServiceUnavailable, "SYSTEM_UNHEALTHY", "Too many forms are being read; send it again.")
			}
			text = append(make([]byte, 0, cap(text)+more), text...)
		}
		n, err := r.Body.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		switch whole = errors.Is(err, io.EOF); {
		case len(text) > mostForm:
			return nil, refuse(http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE", "The form is larger than 2 MiB.")
		case err != nil && !whole:
			return nil, refuse(http.StatusBadRequest, "INVALID_REQUEST", "The form did not arrive whole, or not in time.")
		}
	}
	values, err := url.ParseQuery(string(text))
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "INVALID_REQUEST", "The form cannot be read.")
	}
	return values, nil
}

const mostSaid = 200 // characters of what a form did

// said is what the last form did, as the address it led to tells. A link on another site's page tells nothing.
func said(r *http.Request, name string) string {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site":
		return ""
	}
	text := strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return -1
		}
		return c
	}, r.URL.Query().Get(name))
	if all := []rune(text); len(all) > mostSaid {
		text = string(all[:mostSaid])
	}
	return text
}

// back sends the browser from a form to a page, to tell there what was done, or else the trouble.
func (p *Pages) back(w http.ResponseWriter, path string, query url.Values, done, trouble string) {
	q := url.Values{}
	maps.Copy(q, query)
	if done != "" {
		q.Set("done", done)
	}
	if trouble != "" {
		q.Set("trouble", trouble)
	}
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	see(w, path)
}

// see answers a form with the address of a page.
func see(w http.ResponseWriter, to string) {
	h := w.Header()
	h.Set("Cache-Control", private)
	h.Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

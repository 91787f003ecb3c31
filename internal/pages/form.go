package pages

import (
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"strconv"
)

const (
	mostForm   = 2 << 20  // bytes of a form with a payload: the largest payload with every byte escaped
	smallForm  = 16 << 10 // bytes of every other form
	formMemory = 64 << 20 // bytes of all forms until they are answered, besides those of small forms
	firstPiece = 4 << 10
	freePiece  = smallForm + 1 // the last byte shows that the form is larger
)

// form reads a small form.
func (p *Pages) form(r *http.Request) (url.Values, error) { return p.formOf(r, smallForm) }

// formOf reads a form of at most most bytes. It allocates memory as the bytes arrive. Memory beyond a small form's
// is limited for all forms together, so that clients which send large forms slowly do not prevent small ones. The
// error is an *apiError.
func (p *Pages) formOf(r *http.Request, most int) (url.Values, error) {
	refuse := func(status int, code, detail string) error {
		return &apiError{Status: status, Code: code, Detail: detail}
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil ||
		media != "application/x-www-form-urlencoded" {
		return nil, refuse(http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE",
			"A form is sent as application/x-www-form-urlencoded.")
	}
	v := visitOf(r)
	if v == nil {
		v = &visit{}
		defer func() { p.forms.Add(-v.held) }()
	}
	tooLarge := refuse(http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE",
		"The form is larger than "+strconv.Itoa(most>>10)+" KiB.")
	if r.ContentLength > int64(most) {
		return nil, tooLarge
	}
	var text []byte
	for whole := false; !whole; {
		if len(text) == cap(text) {
			size := min(max(2*cap(text), firstPiece), most+1)
			if held := int64(size - freePiece); held > v.held {
				more := held - v.held
				v.held = held
				if p.forms.Add(more) > formMemory { // counted before it is allocated
					return nil, refuse(http.StatusServiceUnavailable, "SYSTEM_UNHEALTHY",
						"Too many forms are being read; send it again.")
				}
			}
			text = append(make([]byte, 0, size), text...)
		}
		n, err := r.Body.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		switch whole = errors.Is(err, io.EOF); {
		case len(text) > most:
			return nil, tooLarge
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

// back sends the browser from a form to a page that shows what was done, or else the trouble: texts encoded by
// say.
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

// see answers a form with a redirect to a page.
func see(w http.ResponseWriter, to string) {
	h := w.Header()
	h.Set("Cache-Control", private)
	h.Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

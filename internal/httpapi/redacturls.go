package httpapi

import (
	"bytes"
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierq/tierq/internal/job"
)

// callingTypes are the job types whose payloads and results name addresses that the server calls.
var callingTypes = []string{job.CallbackType, "SEND_WEBHOOK", "FORWARD_DOCUMENT"}

// veilURLs leaves a read-only caller the scheme and the host of each address that a job calls. The path and the query
// may be all that opens the address, so they are hidden whatever TIERQ_REDACT says.
func veilURLs(j *job.Job) {
	if j.CallbackURL != "" && j.CallbackURL != veiled {
		j.CallbackURL = originOf(j.CallbackURL)
	}
	if slices.Contains(callingTypes, j.Type) {
		j.Payload, j.Result = originsOnly(j.Payload), originsOnly(j.Result)
	}
}

// originOf returns an address without user, path and query; "***" for a text that is not an address.
func originOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "" || u.Host == "" {
		return veiled
	}
	return u.Scheme + "://" + u.Host
}

// originsOnly cuts every address in a JSON text down to its origin: each string that is named url, or is in a list
// named endpoints, at any depth. Everything else stays byte for byte as it was. A text that is not JSON is hidden
// whole.
func originsOnly(text []byte) []byte {
	if len(text) == 0 {
		return text
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	out := make([]byte, 0, len(text))
	copied := int64(0) // of text
	for {
		if d.PeekKind() != '"' {
			if _, err := d.ReadToken(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return []byte(veiledText)
			}
			continue
		}
		value, err := d.ReadValue()
		if err != nil {
			return []byte(veiledText)
		}
		if in, length := d.StackIndex(d.StackDepth()); in == '{' && length%2 == 1 || !isAddress(d.StackPointer()) {
			continue // a name, or no address
		}
		// AppendQuote cannot fail: the text was read as a string.
		shown, _ := jsontext.AppendQuote(nil, originOf(string(unquoted(value))))
		end := d.InputOffset()
		out = append(append(out, text[copied:end-int64(len(value))]...), shown...)
		copied = end
	}
	return append(out, text[copied:]...)
}

// isAddress reports whether the string at this place is an address that the server calls.
func isAddress(at jsontext.Pointer) bool {
	return strings.EqualFold(at.LastToken(), "url") || strings.EqualFold(at.Parent().LastToken(), "endpoints")
}

package httpapi

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierq/tierq/internal/job"
)

// veiled stands where a read-only caller may not look; as JSON it is veiledText.
const (
	veiled     = "***"
	veiledText = `"***"`
	everything = "*" // as the name of a member
)

// veilFor is the members of a type that a caller does not see; nil = he sees all.
func (a *api) veilFor(c *gin.Context, typ string) []string {
	if len(a.Redact) == 0 || callerOf(c).Key.Role != job.RoleReadOnly {
		return nil
	}
	if names := a.Redact[typ]; names != nil || typ != job.CallbackType {
		return names
	}
	return ofCallbacks
}

// job.CallbackType tells of another job's end: its payload has that job's result and error text, whatever type that job
// has, and where to tell it.

// ofCallbacks is what is taken out of callbacks where anything is hidden at all and nothing is said of them. Of their
// address everybody sees the host, see veilURLs.
var ofCallbacks = []string{"event"}

// veil takes out of a job what its caller may not see. An error's text is the handler's, and an address of a callback
// the submitter's, and both may say anything: they go with everything else, but not with some members.
func (a *api) veil(c *gin.Context, j *job.Job) {
	if callerOf(c).Key.Role == job.RoleReadOnly {
		veilURLs(j)
	}
	names := a.veilFor(c, j.Type)
	if names == nil {
		return
	}
	j.Payload, j.Result = redact(j.Payload, names), redact(j.Result, names)
	if j.Note != "" &&
		slices.ContainsFunc(names, func(n string) bool { return n == everything || strings.EqualFold(n, "note") }) {
		j.Note = veiled
	}
	if !slices.Contains(names, everything) {
		return
	}
	if j.LastError != "" {
		j.LastError = veiled
	}
	if j.CallbackURL != "" {
		j.CallbackURL = veiled
	}
}

// veilAttempts is veil for what was stored of a job's attempts.
func (a *api) veilAttempts(c *gin.Context, typ string, attempts []job.Attempt) []job.Attempt {
	if !slices.Contains(a.veilFor(c, typ), everything) {
		return attempts
	}
	attempts = slices.Clone(attempts)
	for i := range attempts {
		if attempts[i].Error != "" {
			attempts[i].Error = veiled
		}
	}
	return attempts
}

// fileVeiled refuses a caller the file of a job of which he may not see everything: it cannot be told what in it comes
// from where.
func (a *api) fileVeiled(c *gin.Context, id job.ID) error {
	if len(a.Redact) == 0 || callerOf(c).Key.Role != job.RoleReadOnly {
		return nil
	}
	j, err := a.find(c, id)
	if err != nil || a.veilFor(c, j.Type) == nil {
		return err
	}
	return &problem{kind: forbidden,
		detail: "a read-only key does not see the files of " + j.Type + " jobs: TIERQ_REDACT hides what they are made of"}
}

// redact replaces the members of these names by "***", at whatever depth and in either case; everything else stays byte
// for byte as it was. A text that is not JSON is replaced whole, as all is by "*".
func redact(text []byte, names []string) []byte {
	if len(text) == 0 || len(names) == 0 {
		return text
	}
	if slices.Contains(names, everything) {
		return []byte(veiledText)
	}
	hidden := func(name string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	out := make([]byte, 0, len(text))
	copied := int64(0) // of text
	for {
		token, err := d.ReadToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return []byte(veiledText)
		}
		if in, length := d.StackIndex(d.StackDepth()); in != '{' || length%2 == 0 || !hidden(token.String()) {
			continue // not a name, or one that may be seen
		}
		value, err := d.ReadValue()
		if err != nil {
			return []byte(veiledText)
		}
		end := d.InputOffset()
		out = append(append(out, text[copied:end-int64(len(value))]...), veiledText...)
		copied = end
	}
	return append(out, text[copied:]...)
}

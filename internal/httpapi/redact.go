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

// veiled replaces a value that a read-only caller may not see; veiledText is the same in JSON.
const (
	veiled     = "***"
	veiledText = `"***"`
	everything = "*" // as the name of a member
)

// veilFor returns the names of the members of a type's jobs that a caller may not see; nil = he sees all.
func (a *api) veilFor(c *gin.Context, typ string) []string {
	if len(a.Redact) == 0 || callerOf(c).Key.Role != job.RoleReadOnly {
		return nil
	}
	if names := a.Redact[typ]; names != nil || typ != job.CallbackType {
		return names
	}
	return ofCallbacks
}

// A job of the type job.CallbackType reports the end of another job. Its payload has the other job's result and
// error text, whatever the type of that job is, and the address to call.

// ofCallbacks names the members of callbacks that are hidden if TIERQ_REDACT hides anything and does not name
// callbacks. Read-only callers still see the host of the address, see veilURLs.
var ofCallbacks = []string{"event"}

// veil hides in a job the values that its caller may not see. The error text and the progress' note come from the
// handler and the callback's address from the submitter, and all may contain anything. They are hidden if everything
// is, but not for the sake of single members.
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
	if j.Progress != nil && j.Progress.Note != "" {
		hidden := *j.Progress
		hidden.Note = veiled
		j.Progress = &hidden
	}
}

// veilAttempts hides the error texts of a job's stored attempts, if everything of the job is hidden.
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

// fileVeiled refuses a job's file to a caller who may not see all of the job, because any part of the file may come
// from a hidden member.
func (a *api) fileVeiled(c *gin.Context, id job.ID) error {
	if len(a.Redact) == 0 || callerOf(c).Key.Role != job.RoleReadOnly {
		return nil
	}
	j, err := a.find(c, id)
	if err != nil || a.veilFor(c, j.Type) == nil {
		return err
	}
	return &problem{kind: forbidden,
		detail: "a read-only key does not see the files of " + j.Type +
			" jobs: TIERQ_REDACT hides the payloads that they are made of"}
}

// redact replaces the values of the members with these names by "***", at any depth and in any case; everything
// else stays byte for byte as it was. The whole text is replaced if names has "*", or if the text is not JSON.
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
			continue // not a name, or the name of a member that may be seen
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

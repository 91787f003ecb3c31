package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierq/tierq/internal/job"
)

// The bounds of a unique key.
const (
	maxUniqueKey     = 128               // bytes
	maxUniqueSeconds = 30 * 24 * 60 * 60 // 30 days
)

// uniqueAsked is the member unique of a body that asks for a job. No key = the member is not there.
type uniqueAsked struct {
	key     string
	while   job.UniqueWhile
	on      job.UniqueOn
	maxWait time.Duration // 0 = not said
	inFlow  bool          // the key counts among the jobs of flows
}

var uniqueShape = shape[uniqueAsked]{members: map[string]member[uniqueAsked]{
	"key": func(u *uniqueAsked, v jsontext.Value) error {
		u.key = text(v)
		if v.Kind() != '"' || len(u.key) < 1 || len(u.key) > maxUniqueKey || !utf8.ValidString(u.key) {
			return reason("must be a text of 1 to " + strconv.Itoa(maxUniqueKey) + " bytes")
		}
		return nil
	},
	"while": func(u *uniqueAsked, v jsontext.Value) error {
		switch text(v) {
		case "waiting":
			u.while = job.WhileWaiting
			return nil
		case "living":
			u.while = job.WhileLiving
			return nil
		}
		n, err := wholeSeconds(v, 1, maxUniqueSeconds)
		if err != nil {
			return reason("must be waiting, living, or a whole number of seconds, 1 to " + strconv.Itoa(maxUniqueSeconds))
		}
		u.while = job.WhileSeconds(n)
		return nil
	},
	"on": func(u *uniqueAsked, v jsontext.Value) error {
		switch on := job.UniqueOn(text(v)); on {
		case job.UniqueReturn, job.UniqueRefuse, job.UniqueReplace, job.UniqueAfter:
			u.on = on
			return nil
		}
		return reason("must be return, refuse, replace or after")
	},
	"maxWait": func(u *uniqueAsked, v jsontext.Value) (err error) {
		u.maxWait, err = wholeSeconds(v, 1, int(maxAhead.Seconds()))
		return err
	},
}}

// setUnique reads the member unique.
func (a *asked) setUnique(v jsontext.Value) error {
	if v.Kind() != '{' {
		return reason("must be an object such as {\"key\": \"report 7\"}")
	}
	u := uniqueAsked{while: job.WhileLiving, on: job.UniqueReturn}
	if err := uniqueShape.readObject(v, &u); err != nil {
		return err
	}
	switch {
	case u.key == "":
		return invalid("key", "is missing")
	case u.while.Timed() && (u.on == job.UniqueReplace || u.on == job.UniqueAfter):
		return invalid("on", "must be return or refuse where while is a number of seconds")
	case u.maxWait > 0 && u.on != job.UniqueReplace:
		return invalid("maxWait", "goes with on replace only")
	}
	a.unique = u
	return nil
}

// setFlowUnique reads the member unique of a job of a flow. Such a job always runs, so it waits for the holder of its
// key to end.
func (a *asked) setFlowUnique(v jsontext.Value) error {
	if v.Kind() != '{' {
		return reason("must be an object such as {\"key\": \"report 7\"}")
	}
	u := uniqueAsked{while: job.WhileLiving, on: job.UniqueAfter, inFlow: true}
	if err := uniqueShape.readObject(v, &u); err != nil {
		return err
	}
	switch {
	case u.key == "":
		return invalid("key", "is missing")
	case u.while.Timed():
		return invalid("while", "must be waiting or living for a job of a flow, which waits for the holder's end")
	case u.on != job.UniqueAfter:
		return invalid("on", "must be after for a job of a flow, because each job of a flow runs")
	case u.maxWait > 0:
		return invalid("maxWait", "goes with on replace only")
	}
	a.unique = u
	return nil
}

// uniqueHash returns the hash of a caller's unique key. It contains the caller, so that the same key of two callers
// gives two hashes, and differs from the name of the same Idempotency-Key. The keys of jobs of flows are others than
// those of submits: a submit that replaces the payload of a job would take the job out of its flow.
func uniqueHash(caller *job.Caller, u *uniqueAsked) string {
	of := "unique"
	if u.inFlow {
		of = "unique in flows"
	}
	sum := sha256.Sum256([]byte(of + "\x00" + namespace(caller) + "\x00" + u.key))
	return hex.EncodeToString(sum[:16])
}

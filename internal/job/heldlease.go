package job

import (
	"strconv"
	"strings"
)

// HeldLease is the lease of a worker whose protocol knows no leases: the worker names the job by an id of its own.
type HeldLease struct {
	Field  string // names the lease among those of its worker, see HeldField
	Sealed string // the sealed lease
	Name   string // what the worker calls the job: any text
}

// HeldRef names a HeldLease: the id of the API key, the worker, and the field.
type HeldRef struct{ Key, Worker, Field string }

// HeldField names an attempt of a job.
func HeldField(id ID, attempt int) string { return string(id) + ":" + strconv.Itoa(attempt) }

// Text returns the lease as it is stored. Neither part of it before the name has a space.
func (h HeldLease) Text() string { return h.Sealed + " " + h.Name }

// ReadHeldLease reads what Text returned; false for another text.
func ReadHeldLease(field, text string) (h HeldLease, ok bool) {
	h.Field = field
	h.Sealed, h.Name, ok = strings.Cut(text, " ")
	return h, ok && h.Sealed != ""
}

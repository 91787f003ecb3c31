package web

import (
	"encoding/json"
	"time"
)

// Frame is what every page has around it. Each view embeds one.
type Frame struct {
	Path    string    // of this page, for the navigation
	Here    string    // address of this page with what was asked of it: the way back from the login
	Now     time.Time // Redis' clock, else the host's: ages are counted from it
	Mode    string    // "EMBEDDED", "EXTERNAL"
	Version string
	Gate    *Gate  // nil = not known now
	Caller  Caller // who looks
	Live    string // address of the stream of snapshots; "" = this caller gets none
	Demo    bool   // /demo is served
	Problem string // what cannot be read now, in words for users; the page tries again by itself. "" = nothing
	Notice  string // what the last form did; "" = nothing
	Trouble string // why the last form did nothing; "" = nothing
}

// Caller is who looks at the pages.
type Caller struct {
	Open   bool   // the server has no keys: everybody may do everything
	Name   string // of the key that is logged in; "" = none is
	Role   string // of that key
	Change bool   // may change what is not his: cancel, requeue, plans
}

// Gate says whether submits are let in.
type Gate struct {
	Open      bool   `json:"open"`
	Failures  int    `json:"failures"`
	Threshold int    `json:"threshold"` // failures that close it; 0 = not known
	Reason    string `json:"reason"`    // why it is closed
}

// Plan is what a tier promises.
type Plan struct {
	Tier              string
	Priority          int
	MaxRetries        int
	MaxCrashes        *int          // nil = a crash counts as a retry
	OwnSlots          int           // of each process
	Lines             string        // which jobs wait in lines by key: off, key or owner; "" = off
	MaxWait           time.Duration // 0 = jobs may wait for ever
	HeartbeatTimeout  time.Duration
	MaxProcessingTime time.Duration
	Share             int // percent of the capacity at which the tier is refused
	BackoffBase       time.Duration
	BackoffFactor     float64
	BackoffCap        time.Duration
	BackoffJitter     float64 // 0 to 1
	TypeBackoffs      int     // job types with a backoff of their own, which the form leaves as they are
	Version           int64
}

// Part is one part of the whole, as health sees it.
type Part struct {
	Name   string // "Redis", "SQL", "gate", "workers"
	Status string // UP, DEGRADED, DOWN, OUT_OF_SERVICE
	Detail string
}

// OverviewView is /.
type OverviewView struct {
	Frame
	Snapshot *Snapshot // nil = not for this caller, or not known now
	Plans    []Plan    // best first
	Health   []Part
	Base     string // where this server is reached, for the curl lines: "http://127.0.0.1:8080"
}

// JobType is a job type as the submit form knows it.
type JobType struct {
	Name     string          `json:"name"`
	Also     []string        `json:"also"` // its other names, which no form offers
	About    string          `json:"about"`
	Schema   json.RawMessage `json:"schema"` // JSON Schema of the payload; what the form cannot draw stays a text field
	Examples []Example       `json:"examples"`
}

// Example is a payload that works.
type Example struct {
	Title   string          `json:"title"`
	Payload json.RawMessage `json:"payload"` // in the order in which people read it
}

// SubmitView is /submit. Its form sends tier, type, payload, maxRetries, delaySeconds, callbackUrl and idempotencyKey.
type SubmitView struct {
	Frame
	Plans  []Plan
	Types  []JobType
	Base   string
	Values SubmitValues
	Errors []FieldError // of the values; shown beside their fields
}

// SubmitValues are what was typed.
type SubmitValues struct {
	Tier, Type, Payload, MaxRetries, DelaySeconds, CallbackURL, IdempotencyKey string
}

// FieldError is what is wrong with one field; Field is as the API names it ("payload.steps[0]").
type FieldError struct{ Field, Reason string }

// Of is what is wrong with the field of that name; the payload's own fields are with the payload.
func (v SubmitView) Of(field string) []FieldError { return errorsOf(v.Errors, field) }

// AboutView is /about.
type AboutView struct {
	Frame
	GoVersion string
	Revision  string // of the source; "" = not known
	Decisions []Decision
	Docs      []Link
	Licences  []Licence
}

// Decision is one decision of the design and its reason.
type Decision struct {
	Title, Reason string
	Link          string // "" = none
}

// Link is a text with an address.
type Link struct{ Text, Href, About string }

// Licence is what something in the binary is under.
type Licence struct{ Name, Version, Licence string }

// LoginView is /login. Its form sends key and next.
type LoginView struct {
	Frame
	Next string // a path of this server to go to afterwards
}

// ErrorView is any page that could not be made.
type ErrorView struct {
	Frame
	Status  int
	Title   string
	Detail  string
	TraceID string
	Heals   bool // it may come right by itself: the page tries again
}

// ConfirmView asks before something is done to many: the form is sent again with Fields and confirmed.
type ConfirmView struct {
	Frame
	Title  string // "Requeue 1,204 dead letters?"
	Detail string
	Action string // where the form goes
	Button string // "Requeue 1,204"
	Fields []Field
	Back   string
}

// Field is a hidden field of a form.
type Field struct{ Name, Value string }

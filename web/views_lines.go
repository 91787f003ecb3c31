package web

import "time"

// LineKey names a key of lines: what submits say, or the API key whose submits said none. Both empty: the jobs without
// a key.
type LineKey struct{ Key, Owner string }

// Line is the ready jobs of one key in one tier and one queue.
type Line struct {
	LineKey
	Tier    string
	Queue   string
	Waiting int64
	Running int       // attempts of the key, in all its lines
	Share   float64   // of the worker time that all lines of its tier had in the last five minutes, 0 to 1
	Noisy   bool      // its share is more than a tenth, and thirty attempts of the key or more run
	Parked  bool      // the key may not start an attempt now
	Until   time.Time // with Parked: when it may; zero = when one of its attempts ends, or an operator allows it
}

// Percent is the share in percent.
func (l Line) Percent() float64 { return 100 * l.Share }

// LinesView is /dashboard/lines: the first lines in an order.
type LinesView struct {
	Frame
	Lines   []Line
	Total   int64  // lines that have jobs
	Running int    // attempts of all keys
	Order   string // waiting, running or share: what the first lines have most of
}

// LineView is /dashboard/lines/key: one key with its lines and its limits. Its forms send do: store with the values,
// pause with reason and minutes, or resume; and the key and the version on which the change is based.
type LineView struct {
	Frame
	LineKey
	Lines   []Line
	Version int64 // of the limits; 0 = the key has none
	Values  LimitValues
	Stored  *LimitValues // what is stored, if another caller changed it after the form was shown; nil = nobody did
	Pause   *LinePause   // nil = the key is not paused
	Reason  string       // as it was typed for a pause
	Minutes string       // the same
	Errors  []FieldError
}

// LimitValues are the limits as the form has them; "" = no limit.
type LimitValues struct {
	Running, Weight, Rate, Burst, Waiting string
	Strict                                bool
}

// LinePause is the pause of a key.
type LinePause struct {
	Since  time.Time
	Until  time.Time // zero = it does not end by itself
	By     string
	Reason string
}

// Of is what is wrong with the field of that name.
func (v LineView) Of(field string) []FieldError { return errorsOf(v.Errors, field) }

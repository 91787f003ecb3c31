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
	Share   float64   // of the running attempts of all keys, 0 to 1
	Noisy   bool      // the key has more than a tenth of them, and thirty or more
	Parked  bool      // the key may not start an attempt now
	Until   time.Time // with Parked: when it may; zero = when one of its attempts ends, or an operator allows it
}

// Percent of the running attempts of all keys that are the key's.
func (l Line) Percent() float64 { return 100 * l.Share }

// LinesView is /dashboard/lines: the longest lines.
type LinesView struct {
	Frame
	Lines     []Line
	Total     int64 // lines that have jobs
	Running   int   // attempts of all keys
	ByRunning bool  // the keys with the most running attempts are first, else the lines with the most jobs
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

package httpapi

import (
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierq/tierq/internal/job"
)

// secondsFrom reads a number of seconds from least to maxAhead, and rounds it to the millisecond.
func secondsFrom(v jsontext.Value, least float64) (time.Duration, error) {
	n, err := strconv.ParseFloat(string(v), 64)
	if v.Kind() != '0' || err != nil || !(n >= least && n <= maxAhead.Seconds()) {
		return 0, reason("must be a number of seconds, " + strconv.FormatFloat(least, 'f', -1, 64) + " to " +
			strconv.Itoa(int(maxAhead.Seconds())))
	}
	return time.Duration(math.Round(n*1000)) * time.Millisecond, nil
}

func (a *asked) setExpiresIn(v jsontext.Value) (err error) {
	a.expiresIn, err = secondsFrom(v, 0.001)
	return err
}

func (a *asked) setExpiresAt(v jsontext.Value) (err error) {
	a.expiresAt, err = moment(string(unquoted(v)))
	return err
}

// expiry returns the time, in milliseconds by Redis' clock, by which the job of a submission must be claimed; 0 = the
// body says none, and then admission obeys the plan's MaxWait.
func (a *asked) expiry(now time.Time, s *job.Submission, plan job.Plan) (int64, error) {
	if a.expiresIn == 0 && a.expiresAt.IsZero() {
		return 0, nil
	}
	field, at := "expiresIn", now.Add(a.expiresIn)
	if !a.expiresAt.IsZero() {
		field, at = "expiresAt", a.expiresAt
	}
	due := now.Add(s.Delay)
	if !s.RunAt.IsZero() {
		due = s.RunAt
	}
	switch {
	case at.UnixMilli() <= now.UnixMilli():
		return 0, invalid(field, "is in the past")
	case at.After(now.Add(maxAhead)):
		return 0, invalid(field, "is more than 365 days ahead")
	case at.UnixMilli() <= due.UnixMilli():
		return 0, invalid(field, "is not after the time from which the job may run")
	case plan.MaxWait > 0 && at.UnixMilli() > due.Add(plan.MaxWait).UnixMilli():
		return 0, invalid(field, "may shorten the tier's "+plan.MaxWait.String()+", not lengthen it")
	}
	return at.UnixMilli(), nil
}

package web

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// The texts of numbers. static/face/format.js writes the same ones: what a script replaces looks as it did.

// count writes 1204 as "1,204".
func count[N int | int64](n N) string {
	s := strconv.FormatInt(int64(n), 10)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// span writes seconds with as many digits as a reader needs: "0 ms", "8.4 ms", "230 ms", "1.24 s", "42 s", "4 min 12
// s", "3 h 5 min", "2 d 4 h".
func span(seconds float64) string {
	switch {
	case math.IsNaN(seconds) || seconds < 0:
		return "0 ms"
	case seconds < 0.00995:
		return strings.TrimSuffix(strconv.FormatFloat(seconds*1000, 'f', 1, 64), ".0") + " ms"
	case seconds < 0.9995:
		return strconv.FormatFloat(seconds*1000, 'f', 0, 64) + " ms"
	case seconds < 9.995:
		return strconv.FormatFloat(seconds, 'f', 2, 64) + " s"
	case seconds < 59.95:
		return strconv.FormatFloat(seconds, 'f', 1, 64) + " s"
	}
	return longSpan(int64(math.Round(seconds)))
}

func longSpan(n int64) string {
	two := func(a int64, big string, b int64, small string) string {
		if b == 0 {
			return fmt.Sprintf("%d %s", a, big)
		}
		return fmt.Sprintf("%d %s %d %s", a, big, b, small)
	}
	switch {
	case n < 3600:
		return two(n/60, "min", n%60, "s")
	case n < 86400:
		return two(n/3600, "h", n%3600/60, "min")
	}
	return two(n/86400, "d", n%86400/3600, "h")
}

// neat writes a setting, which is seldom more exact than it looks: 50 s, 1.5 s.
func neat(d time.Duration) string { return neatSeconds(d.Seconds()) }

func neatSeconds(s float64) string {
	if s < 1 || s >= 60 {
		return span(s)
	}
	return strconv.FormatFloat(s, 'f', -1, 64) + " s"
}

// between is the span from one time to another; "" if either is not there.
func between(from, to time.Time) string {
	if from.IsZero() || to.IsZero() {
		return ""
	}
	return span(to.Sub(from).Seconds())
}

// ago is how long before now a time is.
func ago(now, t time.Time) string {
	switch s := now.Sub(t).Seconds(); {
	case t.IsZero() || now.IsZero():
		return ""
	case s < -1:
		return "in " + longOrSeconds(-s)
	case s < 1:
		return "now"
	default:
		return longOrSeconds(s) + " ago"
	}
}

func longOrSeconds(s float64) string {
	if s < 60 {
		return strconv.FormatFloat(math.Floor(s), 'f', 0, 64) + " s"
	}
	return longSpan(int64(s))
}

// rate writes a number of jobs per second.
func rate(perSecond float64) string {
	switch {
	case math.IsNaN(perSecond) || perSecond <= 0:
		return "0"
	case perSecond < 0.095:
		return strconv.FormatFloat(perSecond, 'f', 2, 64)
	case perSecond < 99.5:
		return strconv.FormatFloat(perSecond, 'f', 1, 64)
	}
	return count(int64(math.Round(perSecond)))
}

// size writes bytes.
func size[N int | int64](n N) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// clock is a time of day, in UTC.
func clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("15:04:05")
}

// stampShort is stamp without the fraction of a whole second.
func stampShort(t time.Time) string { return strings.TrimSuffix(stamp(t), ".000") }

// stamp is a time in full, in UTC.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05.000")
}

// iso is a time for machines.
func iso(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// hue is the class that gives a tier its accent: one each for the seed's three, a neutral one for those that operators
// add.
func hue(tier string) string {
	switch tier {
	case "PAID", "UNPAID", "PUBLIC":
		return "t-" + strings.ToLower(tier)
	}
	return "t-other"
}

// short is the end of an id, where ids made at one time differ.
func short(id string) string {
	if len(id) != 36 {
		return id
	}
	return "…" + id[24:]
}

// tone is the class of a status, an outcome, a part's health or a kind of event.
func tone(word string) string {
	switch word {
	case "COMPLETED", "SUCCESS", "UP":
		return "is-ok"
	case "FAILED", "FAILURE", "DOWN", "dead":
		return "is-bad"
	case "PROCESSING", "RUNNING":
		return "is-run"
	case "DEGRADED", "OUT_OF_SERVICE", "STUCK", "crashed", "stuck", "gate":
		return "is-warn"
	}
	return "is-idle"
}

// spark is the points of a line through values, in a box of 120 by 28; a line without values lies on the ground.
func spark(values []int64) string {
	if len(values) < 2 {
		return "0,27 120,27"
	}
	most := int64(1)
	for _, v := range values {
		most = max(most, v)
	}
	var b strings.Builder
	for i, v := range values {
		if i > 0 {
			b.WriteByte(' ')
		}
		x := 120 * float64(i) / float64(len(values)-1)
		y := 27 - 25*float64(max(v, 0))/float64(most)
		fmt.Fprintf(&b, "%s,%s", trim(x), trim(y))
	}
	return b.String()
}

func trim(f float64) string { return strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0") }

// left is how many seconds there are until a deadline, not below 0.
func left(now, deadline time.Time) float64 { return max(deadline.Sub(now).Seconds(), 0) }

// due counts down to a moment in whole seconds, as wide as those of the longest wait: what stands behind it does not
// move.
func due(now, at time.Time, longest float64) string {
	digits := len(strconv.Itoa(int(math.Ceil(longest))))
	n := strconv.Itoa(int(math.Ceil(left(now, at))))
	return strings.Repeat("\u2007", max(digits-len(n), 0)) + n + " s"
}

func errorsOf(all []FieldError, field string) []FieldError {
	var list []FieldError
	for _, e := range all {
		if e.Field == field || strings.HasPrefix(e.Field, field+".") || strings.HasPrefix(e.Field, field+"[") {
			list = append(list, e)
		}
	}
	return list
}

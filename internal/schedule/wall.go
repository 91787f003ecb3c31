package schedule

import (
	"math/bits"
	"time"
)

// A cron expression names wall-clock times, and a zone's clock is not even: it jumps over some times and shows others
// twice. An expression that takes every hour follows the hours that pass, so a jump adds and removes no occurrence.
// Every other expression has one occurrence for each time that it names: at the first of two such times, and, for times
// that a clock jumps over, at the jump.

// maxYears is how many years ahead an occurrence is looked for: 29 February may be eight years away.
const maxYears = 9

// nextWall returns the first occurrence after a time; the zero time if none is near.
func (t *Timetable) nextWall(after time.Time) time.Time {
	if t.everyHour {
		return t.nextHourly(after)
	}
	// What the clock shows now, and everything before that, it has shown or jumped over by now.
	wall := wallOf(after.In(t.zone)).Add(time.Second)
	limit := wall.AddDate(maxYears, 0, 0)
	for {
		wall = t.nextMatch(wall, limit)
		if wall.IsZero() {
			return wall
		}
		if at := t.instant(wall); at.After(after) {
			return at
		}
		wall = wall.Add(time.Second)
	}
}

// nextHourly is nextWall of an expression that takes every hour: the first instant at which the clock shows a time of
// the expression.
func (t *Timetable) nextHourly(after time.Time) time.Time {
	at := after.Truncate(time.Second).Add(time.Second)
	limit := at.AddDate(maxYears, 0, 0)
	for at.Before(limit) {
		local := at.In(t.zone)
		wall := wallOf(local)
		match := t.nextMatch(wall, wall.AddDate(maxYears, 0, 0))
		if match.IsZero() {
			return match
		}
		ahead := match.Sub(wall)
		if ahead == 0 {
			return at
		}
		// The clock may change on the way: then it is asked anew at the change.
		_, change := local.ZoneBounds()
		if there := at.Add(ahead); change.IsZero() || there.Before(change) {
			return there
		}
		at = change
	}
	return time.Time{}
}

// wallOf returns what a clock shows at a time, as a time in UTC.
func wallOf(at time.Time) time.Time {
	return time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), at.Second(), 0, time.UTC)
}

// instant returns when the zone's clock shows a wall-clock time for the first time, or jumps over it.
func (t *Timetable) instant(wall time.Time) time.Time {
	guess := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), 0, t.zone)
	// Which offset Date chose does not matter: the time is looked for in all periods of the zone's clock around it.
	at := guess.Add(-26 * time.Hour)
	for {
		_, end := at.ZoneBounds()
		_, offset := at.Zone()
		shown := wall.Add(-time.Duration(offset) * time.Second)
		switch {
		case end.IsZero() || shown.Before(end):
			if start, _ := at.ZoneBounds(); !start.IsZero() && shown.Before(start) {
				return start // the clock jumped over it as this period began
			}
			return shown.In(t.zone)
		}
		at = end.In(t.zone)
	}
}

// nextMatch returns the first wall-clock time that the expression names, from a time on and before a limit; the zero
// time if there is none.
func (t *Timetable) nextMatch(wall, limit time.Time) time.Time {
	c := t.cron
	for day := wall; day.Before(limit); {
		year, month, date := day.Date()
		if c.Month&(1<<uint(month)) == 0 {
			day = time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
			continue
		}
		if t.takesDay(day) {
			if at, found := t.inDay(day); found {
				if !at.Before(limit) {
					return time.Time{}
				}
				return at
			}
		}
		day = time.Date(year, month, date+1, 0, 0, 0, 0, time.UTC)
	}
	return time.Time{}
}

// takesDay says whether the expression names a day. If it restricts both the day of the month and the day of the week,
// one of them is enough, as in every cron.
func (t *Timetable) takesDay(day time.Time) bool {
	const star = 1 << 63
	ofMonth := t.cron.Dom&(1<<uint(day.Day())) != 0
	ofWeek := t.cron.Dow&(1<<uint(day.Weekday())) != 0
	if t.cron.Dom&star != 0 || t.cron.Dow&star != 0 {
		return ofMonth && ofWeek
	}
	return ofMonth || ofWeek
}

// inDay returns the first time of a day that the expression names, from the given time of the day on.
func (t *Timetable) inDay(from time.Time) (at time.Time, found bool) {
	c := t.cron
	hour, minute, second := from.Hour(), from.Minute(), from.Second()
	for {
		h := nextBit(c.Hour, hour, 24)
		if h < 0 {
			return at, false
		}
		if h > hour {
			minute, second = 0, 0
		}
		m := nextBit(c.Minute, minute, 60)
		if m > minute {
			second = 0
		}
		s := -1
		if m >= 0 {
			s = nextBit(c.Second, second, 60)
		}
		switch {
		case m < 0:
			hour, minute, second = h+1, 0, 0
		case s < 0:
			hour, minute, second = h, m+1, 0
		default:
			return time.Date(from.Year(), from.Month(), from.Day(), h, m, s, 0, time.UTC), true
		}
	}
}

// nextBit returns the lowest bit of a set that is at least from and below most; -1 if there is none.
func nextBit(set uint64, from, most int) int {
	if from >= most {
		return -1
	}
	set = set & (1<<uint(most) - 1) >> uint(from) << uint(from)
	if set == 0 {
		return -1
	}
	return bits.TrailingZeros64(set)
}

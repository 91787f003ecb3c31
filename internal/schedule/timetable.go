// Package schedule makes jobs at times: it reads cron expressions, knows which time is next, and fires the due
// schedules. SQL has them and decides which process fires an occurrence (docs/adr/0042-schedules-are-fired-by-sql.md).
package schedule

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"time"
	_ "time/tzdata" // the image has no zones of its own, and neither has Windows

	"github.com/robfig/cron/v3"

	"github.com/tierq/tierq/internal/job"
)

// Timetable returns the occurrences of a schedule.
type Timetable struct {
	cron       *cron.SpecSchedule // nil = every
	everyHour  bool               // the expression takes every hour of a day
	every      time.Duration
	zone       *time.Location
	start, end time.Time
	offset     time.Duration
}

const (
	leastEvery = time.Second
	mostEvery  = 366 * 24 * time.Hour
	mostJitter = 24 * time.Hour
	maxCron    = 200 // bytes
)

// parser reads five fields, or six with seconds, and names such as @hourly.
var parser = cron.NewParser(
	cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// New returns the timetable of a schedule. Its error is job.ErrBadSchedule, with the reason.
func New(s *job.Schedule) (*Timetable, error) {
	t := &Timetable{zone: time.UTC, every: s.Every, start: s.Start, end: s.End}
	switch {
	case !job.IsScheduleName(s.Name):
		return nil, job.BadSchedule("name", "has 1 to 80 of A-Z a-z 0-9 . _ - and begins with a letter or a digit")
	case s.Cron == "" && s.Every == 0:
		return nil, job.BadSchedule("cron", "is missing: a schedule has cron or everySeconds")
	case s.Cron != "" && s.Every != 0:
		return nil, job.BadSchedule("cron", "excludes everySeconds: a schedule has one of them")
	case s.Every != 0 && (s.Every < leastEvery || s.Every > mostEvery || s.Every%time.Second != 0):
		return nil, job.BadSchedule("everySeconds", "must be a whole number, 1 to %d", int(mostEvery.Seconds()))
	case s.Every != 0 && s.Timezone != "":
		return nil, job.BadSchedule("timezone", "goes with cron")
	case s.Jitter < 0 || s.Jitter > mostJitter || s.Jitter%time.Second != 0:
		return nil, job.BadSchedule("jitterSeconds", "must be a whole number, 0 to %d", int(mostJitter.Seconds()))
	case !s.Start.IsZero() && !s.End.IsZero() && s.End.Before(s.Start):
		return nil, job.BadSchedule("end", "is before start")
	}
	if s.Cron != "" {
		if err := t.read(s.Cron, s.Timezone); err != nil {
			return nil, err
		}
	}
	if s.Jitter > 0 {
		sum := sha256.Sum256([]byte("jitter\x00" + s.Name))
		t.offset = time.Duration(binary.BigEndian.Uint64(sum[:])%uint64(s.Jitter/time.Millisecond)) * time.Millisecond
	}
	return t, nil
}

// read reads a cron expression and a zone.
func (t *Timetable) read(text, zone string) (err error) {
	if zone != "" {
		// Local names another zone on each server. Other names that do not begin with a capital, such as localtime and
		// right/Europe/Berlin, are files of some systems only.
		if t.zone, err = time.LoadLocation(zone); err != nil || zone == "Local" || zone[0] < 'A' || zone[0] > 'Z' {
			return job.BadSchedule("timezone", "%.60q is not known: it must be a name such as Europe/Berlin", zone)
		}
	}
	if len(text) > maxCron || strings.Contains(text, "=") { // TZ= is the parser's own way to name a zone
		return job.BadSchedule("cron", "must be an expression such as 30 2 * * 1-5, of at most %d bytes, without a zone",
			maxCron)
	}
	read, err := parser.Parse(text)
	if err != nil {
		why, _, _ := strings.Cut(err.Error(), ": strconv.") // the rest is about Go's parser
		return job.BadSchedule("cron", "%.100s; it must be an expression such as 30 2 * * 1-5", why)
	}
	var whole bool
	if t.cron, whole = read.(*cron.SpecSchedule); !whole { // @every
		return job.BadSchedule("cron", "takes no @every: say everySeconds")
	}
	const all = 1<<24 - 1
	t.everyHour = t.cron.Hour&all == all
	if t.nextWall(time.Unix(0, 0)).IsZero() {
		return job.BadSchedule("cron", "never comes")
	}
	return nil
}

// Due returns when an occurrence is fired. The schedule's name decides how much later than the occurrence itself that
// is, within the schedule's jitter.
func (t *Timetable) Due(occurrence time.Time) time.Time {
	if occurrence.IsZero() {
		return occurrence
	}
	return occurrence.Add(t.offset)
}

// Next returns the first occurrence after a time; the zero time if there is none.
func (t *Timetable) Next(after time.Time) time.Time {
	if first := t.start.Add(-1); !t.start.IsZero() && after.Before(first) {
		after = first
	}
	var next time.Time
	if t.cron == nil {
		next = t.nextStep(after)
	} else {
		next = t.nextWall(after)
	}
	if next.IsZero() || !t.end.IsZero() && next.After(t.end) {
		return time.Time{}
	}
	return next.UTC()
}

// nextStep returns the first multiple of every after a time, counted from the start, or else from 1970.
func (t *Timetable) nextStep(after time.Time) time.Time {
	anchor := t.start
	if anchor.IsZero() {
		anchor = time.Unix(0, 0)
	}
	// In seconds, because no time.Duration is longer than 292 years.
	every, since := int64(t.every/time.Second), after.Unix()-anchor.Unix()
	if after.Nanosecond() < anchor.Nanosecond() {
		since--
	}
	passed := (since%every + every) % every // since the last multiple
	return time.Unix(anchor.Unix()+since-passed+every, int64(anchor.Nanosecond()))
}

// Overdue returns which occurrences since first, which is one itself, have come by now: the latest of them, at most
// keep, in order; and how many came before these (-1 = more than are counted).
func (t *Timetable) Overdue(first, now time.Time, keep int) (latest []time.Time, before int) {
	const most = 10_000
	if first.IsZero() || first.After(now) {
		return nil, 0
	}
	// Look back from now, twice as far each time, until there are enough.
	for back := time.Second; ; back *= 2 {
		from := now.Add(-back)
		if !from.After(first) {
			from = first.Add(-1)
		}
		latest = latest[:0]
		for at := t.Next(from); !at.IsZero() && !at.After(now); at = t.Next(at) {
			latest = append(latest, at)
		}
		if len(latest) >= keep || from.Before(first) {
			break
		}
	}
	cut := max(len(latest)-keep, 0)
	latest = latest[cut:]
	if len(latest) == 0 { // first is no occurrence any more
		return nil, 0
	}
	for at := first; at.Before(latest[0]); at = t.Next(at) {
		if before++; before > most {
			return latest, -1
		}
	}
	return latest, before
}

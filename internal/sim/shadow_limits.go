package sim

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// keyOfLines is what the scripts have to know of a key of lines. Times are in ms.
type keyOfLines struct {
	most        int     // attempts at once; 0 = any number
	interval    float64 // between two starts, on average; 0 = none
	burst       int
	strict      bool
	pausedUntil float64
	nextAt      float64 // the theoretical arrival time of the rate
	behind      *known  // a strict key starts no attempt while this job backs off; nil = none
	running     int     // in the course of a claim
}

// from returns the time from which on the key may start one more attempt.
func (k *keyOfLines) from(now float64) float64 {
	switch {
	case k.pausedUntil > now:
		return k.pausedUntil
	case k.most > 0 && k.running >= k.most, k.strict && (k.running > 0 || k.behind != nil):
		return math.Inf(1)
	}
	return k.timed()
}

// timed returns the time from which on neither the pause nor the rate forbids an attempt.
func (k *keyOfLines) timed() float64 {
	at := k.pausedUntil
	if k.interval > 0 {
		at = max(at, k.nextAt-k.interval*float64(k.burst-1))
	}
	return at
}

// start counts an attempt. Redis keeps the time of the rate with three digits.
func (k *keyOfLines) start(now float64) {
	k.running++
	if k.interval > 0 {
		k.nextAt = math.Round((max(k.nextAt, now)+k.interval)*1000) / 1000
	}
}

// bound cuts the time of the rate, which other limits may have left too late.
func (k *keyOfLines) bound(now float64) {
	if latest := now + k.interval*float64(k.burst); k.interval > 0 && k.nextAt > latest+1 {
		k.nextAt = math.Round(latest*1000) / 1000
	}
}

func (s *shadow) lineKey(name string) *keyOfLines {
	if s.lines[name] == nil {
		s.lines[name] = &keyOfLines{}
	}
	return s.lines[name]
}

// stateOf returns a copy of what the scripts have to know of a key now, with the attempts that run.
func (s *shadow) stateOf(name string) *keyOfLines {
	k := *s.lineKey(name)
	k.running = s.runningOf(name)
	return &k
}

func (s *shadow) runningOf(name string) (n int) {
	for _, k := range s.jobs {
		if k.line == name && k.status == job.Processing {
			n++
		}
	}
	return n
}

// limitKeys handles limits that Redis was given: "running weight interval burst waiting strict paused_until".
func (s *shadow) limitKeys(argv []string) {
	for i := 0; i < len(argv); i += 2 {
		k := s.lineKey(argv[i])
		k.most, k.interval, k.burst, k.strict, k.pausedUntil = 0, 0, 1, false, 0
		if f := strings.Fields(argv[i+1]); len(f) == 7 {
			k.most, k.burst, k.strict = int(number(f[0])), int(number(f[3])), f[5] == "1"
			k.interval, _ = strconv.ParseFloat(f[2], 64)
			k.pausedUntil, _ = strconv.ParseFloat(f[6], 64)
			k.bound(float64(s.w.ms()))
			s.w.fault("limited")
		}
	}
}

// backsOff notes that a job waits for its next attempt: a strict key starts no other meanwhile.
func (s *shadow) backsOff(k *known) {
	if k.line != "" && k.status == job.Scheduled && s.lineKey(k.line).strict {
		s.lineKey(k.line).behind = k
	}
}

// noteRetries forgets the jobs that do not back off any more.
func (s *shadow) noteRetries() {
	for _, k := range s.lines {
		if k.behind != nil && k.behind.status != job.Scheduled {
			k.behind = nil
		}
	}
}

// parked checks that the keys with parked lines may not run, unless a time was in the way since the last promotion.
func (s *shadow) parked(shot queuetest.Snapshot, partition int) {
	now := float64(s.w.ms())
	for name := range s.lines {
		of := s.stateOf(name)
		if lines := shot.LineKey(name).Parked; len(lines) > 0 && of.from(now) <= now &&
			of.timed() <= float64(s.promoted[partition]) {
			s.wrong("S27", "the lines %v of the key %s are parked, and it may run: %+v", lines, name, *of)
		}
	}
}

// wakesInTime checks that a key that may run again, because a time has passed, was not left for long. promoting is
// since when a process runs whose promoter had no trouble; zero = there is none.
func (w *World) wakesInTime(k *known, now, promoting time.Time) {
	if k.line == "" || k.status != job.Pending || promoting.IsZero() {
		return
	}
	of := w.shadow.stateOf(k.line)
	if of.from(float64(w.ms())) > float64(w.ms()) || of.timed() <= float64(w.shadow.promoted[k.id.Partition()]) {
		return
	}
	late := min(now.Sub(time.UnixMilli(int64(of.timed()))), now.Sub(promoting), now.Sub(time.UnixMilli(k.there)))
	if late > time.Second+slack {
		w.shadow.wrong("S27", "%s: its key may run for %s, and nobody has woken its line", k, late)
	}
}

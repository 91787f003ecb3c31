package web

import "time"

// Schedule is a schedule as the pages show it.
type Schedule struct {
	Name     string
	Cron     string        // "" = Every
	Every    time.Duration // 0 = Cron
	Timezone string        // "" = none
	Tier     string
	Type     string
	Queue    string
	Overlap  string
	CatchUp  string
	Jitter   time.Duration
	Start    time.Time // zero = none
	End      time.Time // zero = none
	Owner    string
	Payload  []byte      // JSON; nil = none
	Next     []time.Time // the next five; none while it is paused
	Last     time.Time   // the last occurrence; zero = there was none
	Version  int64
	Pause    *SchedulePause // nil = it is not paused
}

// SchedulePause is the pause of a schedule.
type SchedulePause struct {
	Since  time.Time
	By     string // "" = a caller without a key, or the server
	Reason string
}

// ScheduleRun is an occurrence that was fired, or all missed occurrences from Occurrence to Through.
type ScheduleRun struct {
	Occurrence, Through time.Time
	JobID               string // "" = missed
	Living              bool   // the job has not ended
	Asked               bool   // an operator asked for it
	Missed              int    // how many were missed; 0 = more than were counted
	Reason              string
	Detail              string
}

// SchedulesView is /dashboard/schedules.
type SchedulesView struct {
	Frame
	Schedules []Schedule
}

// ScheduleView is /dashboard/schedules/one: a schedule with its last ten runs. Its form sends do: run, pause with
// reason, or resume.
type ScheduleView struct {
	Frame
	Schedule Schedule
	Runs     []ScheduleRun
	Reason   string // as it was typed for a pause
}

// Several says whether the run stands for more than one occurrence.
func (r ScheduleRun) Several() bool { return r.Through.After(r.Occurrence) }

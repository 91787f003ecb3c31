package web

import (
	"io"
	"time"
)

func (s samples) schedules() []Schedule {
	next := []time.Time{s.now.Add(time.Hour), s.now.Add(25 * time.Hour)}
	return []Schedule{
		{
			Name: s.text("nightly-report"), Cron: s.text("30 2 * * *"), Timezone: s.text("Europe/Berlin"),
			Tier: s.text("UNPAID"), Type: s.text("REPORT"), Queue: s.text("main"), Overlap: "skip", CatchUp: "last",
			Jitter: time.Minute, Start: s.now, End: s.now.AddDate(1, 0, 0), Owner: s.text("aaaabbbbccccdddd"),
			Payload: []byte(`{"kind":"jobs"}`), Next: next, Last: s.now.Add(-time.Hour), Version: 3,
		},
		{
			Name: "often", Every: 10 * time.Minute, Tier: "PAID", Type: "SIMULATION", Queue: "films", Overlap: "one",
			CatchUp: "none", Version: 1, Pause: &SchedulePause{s.now, s.text("ada"), s.text("a fire")},
		},
		{Name: "over", Cron: "@daily", Timezone: "UTC", Tier: "PAID", Type: "SIMULATION", Queue: "main"},
	}
}

func (s samples) schedule(i int) ScheduleView {
	return ScheduleView{
		Frame: s.frame("/dashboard/schedules/one"), Schedule: s.schedules()[i], Reason: s.text("a fire"),
		Runs: []ScheduleRun{
			{Occurrence: s.now, Through: s.now, JobID: s.id(1), Living: true},
			{Occurrence: s.now, Through: s.now, JobID: s.id(2), Asked: true},
			{Occurrence: s.now.Add(-time.Hour), Through: s.now, Missed: 7,
				Reason: s.text("FULL"), Detail: s.text("the queue is full")},
			{Occurrence: s.now.Add(-time.Hour), Through: s.now, Reason: "DOWN"},
		},
	}
}

// scheduleForm is the form with everything in it; a hostile one was refused.
func (s samples) scheduleForm(fresh bool) ScheduleFormView {
	v := ScheduleFormView{
		Frame: s.frame("/dashboard/schedules/edit"), Fresh: fresh, Name: s.text("nightly-report"), Version: 3,
		Values: ScheduleValues{
			s.text("nightly-report"), s.text("30 2 * * *"), s.text("600"), s.text("Europe/Berlin"), s.text("60"), "skip", "last",
			s.text("PAID"), s.text("REPORT"), s.text("films"), s.text(`{"kind": "jobs"}`),
		},
		Others: []string{"start", s.text("the callback")}, Tiers: s.plans(), Types: []JobType{{Name: s.text("REPORT")}},
		Overlaps: []Choice{{"skip", s.text("the next is missed")}, {"allow", "it runs beside"}},
		CatchUps: []Choice{{"last", "fire the latest"}},
		Preview: &SchedulePreview{
			Next:   []Occurrence{{s.now, ""}, {s.now.Add(time.Hour), s.text("Mon 02:30:00 CET")}},
			Jitter: s.text("60"), Paused: true,
		},
	}
	if s.evil {
		v.Stored = &s.schedules()[0]
		for _, field := range []string{"", "name", "cron", "timezone", "overlap", "tier", "type", "payload"} {
			v.Errors = append(v.Errors, FieldError{field, hostile})
		}
	}
	return v
}

// schedulePages writes the pages of schedules.
func (s samples) schedulePages(p *Set, empty bool) map[string]func(io.Writer) error {
	if empty {
		f := func(path string) Frame { return Frame{Path: path} }
		return map[string]func(io.Writer) error{
			"schedules": func(w io.Writer) error {
				return p.Schedules(w, SchedulesView{Frame: f("/dashboard/schedules")})
			},
			"schedule": func(w io.Writer) error {
				return p.Schedule(w, ScheduleView{Frame: f("/dashboard/schedules/one")})
			},
			"schedule form": func(w io.Writer) error {
				return p.ScheduleForm(w, ScheduleFormView{Frame: f("/dashboard/schedules/new"), Preview: &SchedulePreview{}})
			},
		}
	}
	return map[string]func(io.Writer) error{
		"schedules": func(w io.Writer) error {
			return p.Schedules(w, SchedulesView{s.frame("/dashboard/schedules"), s.schedules()})
		},
		"schedule":        func(w io.Writer) error { return p.Schedule(w, s.schedule(0)) },
		"paused schedule": func(w io.Writer) error { return p.Schedule(w, s.schedule(1)) },
		"schedule form":   func(w io.Writer) error { return p.ScheduleForm(w, s.scheduleForm(false)) },
		"new schedule":    func(w io.Writer) error { return p.ScheduleForm(w, s.scheduleForm(true)) },
	}
}

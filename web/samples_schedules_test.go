package web

import "time"

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

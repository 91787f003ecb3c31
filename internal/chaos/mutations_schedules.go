package chaos

import "time"

// mutationsOfSchedules are bugs of schedules.
var mutationsOfSchedules = []mutation{
	{
		name: "each process fires an occurrence, under an id of its own",
		want: "S28",
		over: 14 * time.Second,
		edits: []edit{
			{"internal/archive/schedule_runs.go", `moveSchedule+" = ?"`,
				`moveSchedule+" IS NOT NULL OR 1 = 0 AND occurrence = ?"`},
			// MariaDB does not count a row that stays as it is.
			{"internal/archive/schedule_runs.go", "n == 0 {\n			fired = job.FiredLost",
				"n < 0 {\n			fired = job.FiredLost"},
			{"internal/archive/schedule_runs.go", "err != nil || !fresh {", "err != nil || !fresh && false {"},
			{"internal/schedule/row.go", "	if home == \"\" {\n", "	sum = sha256.Sum256([]byte(name()))\n	if home == \"\" {\n"},
		},
	},
	{
		name: "an occurrence is passed over in silence",
		want: "S28",
		only: "F14|F36|F08",
		over: 20 * time.Second,
		edits: []edit{{"internal/schedule/firer.go", "	if v.missed != 0 {\n		change.Missed",
			"	if false {\n		change.Missed"}},
	},
	{
		name: "a paused schedule fires",
		want: "S28",
		over: 20 * time.Second,
		edits: []edit{{"internal/schedule/book.go",
			"s.Paused, s.Due, s.Version = &p, time.Time{}, is.Version+1", "s.Paused, s.Version = &p, is.Version+1"}},
	},
	{
		name: "a changed schedule keeps its payload",
		want: "S28",
		over: 20 * time.Second,
		edits: []edit{{"internal/archive/schedules.go", "schedule = ?, payload = ?,",
			"schedule = ?, payload = COALESCE(payload, ?),"}},
	},
	{
		name: "the job of an occurrence gets no row",
		want: "S1",
		only: "F07 killed when a schedule",
		over: 20 * time.Second,
		edits: []edit{{"internal/archive/schedule_runs.go",
			"	_, err = insert(ctx, conn, a.inserts, acceptedTable, []*job.JournalRow{f.Row})\n	return job.FiredJob, err",
			"	return job.FiredJob, nil"}},
	},
}

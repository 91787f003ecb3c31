package web

import "time"

func (s samples) batches() []BatchRow {
	return []BatchRow{
		{s.id(1), s.text("import 7"), "RUNNING", 1, 10_000, 7_500, 20, s.now.Add(-time.Hour), time.Time{}},
		{s.id(2), "night", "STUCK", 2, 4, 4, 1, s.now.Add(-2 * time.Hour), s.now},
	}
}

func (s samples) batch() BatchView {
	return BatchView{
		Frame: s.frame("/batches/x"), BatchRow: s.batches()[1], Completed: 3, Percent: 100, Then: s.text("MAIL"),
		On: "succeeded", Asked: true, More: true, CanSeal: true, CanCancel: true,
		Members: []BatchMember{{s.id(3), s.now}},
	}
}

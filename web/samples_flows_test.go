package web

import "time"

func (s samples) flows() []FlowRow {
	return []FlowRow{
		{s.id(1), s.text("picture 4711"), "RUNNING", 3, 7, 0, s.now.Add(-time.Hour), time.Time{}},
		{s.id(2), "", "STUCK", 1, 4, 1, s.now.Add(-2 * time.Hour), time.Time{}},
		{s.id(3), "night", "COMPLETED", 4, 4, 0, s.now.Add(-3 * time.Hour), s.now},
	}
}

func (s samples) flow() FlowView {
	jobs := []FlowJob{
		{Name: s.text("split"), ID: s.id(1), Status: "COMPLETED", Tier: s.text("PAID"), Type: s.text("SPLIT"),
			OnFailure: "cancel"},
		{Name: "split/1", ID: s.id(2), Status: "PROCESSING", Tier: "PAID", Type: "PART", OnFailure: "cancel"},
		{Name: "split/a-very-long-name-of-a-part", ID: s.id(3), Status: "FAILED", Tier: "PAID", Type: "PART",
			OnFailure: "run"},
		{Name: "join", ID: s.id(4), Status: "WAITING", Tier: "PAID", Type: "JOIN", After: []string{"split/*", s.text("x")},
			Parents: []string{s.text("split"), "split/1", "split/a-very-long-name-of-a-part"}, OnFailure: "wait"},
		{Name: "mail", ID: s.id(5), Status: "CANCELLED", Tier: "PUBLIC", Type: "MAIL", After: []string{"join"},
			Parents: []string{"join"}, OnFailure: "cancel", Cause: s.text("DEPENDENCY_FAILED")},
	}
	return FlowView{
		Frame: s.frame("/flows/x"), FlowRow: s.flows()[1], Asked: true, Jobs: jobs, Drawing: DrawFlow(jobs), CanCancel: true,
	}
}

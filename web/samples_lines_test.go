package web

import "time"

func (s samples) lines() []Line {
	until := s.now.Add(time.Minute)
	return []Line{
		{LineKey{Key: s.text("acme & sons")}, s.text("PUBLIC"), s.text("main"), 90210, 40, 0.8, true, false, time.Time{}},
		{LineKey{Owner: s.text("aaaabbbbccccdddd")}, "PAID", "films", 12, 2, 0.04, false, true, until},
		{LineKey{}, "PUBLIC", "main", 1, 0, 0, false, true, time.Time{}},
	}
}

func (s samples) line() LineView {
	v := LineView{
		Frame: s.frame("/dashboard/lines/key"), LineKey: LineKey{Key: s.text("acme & sons")}, Lines: s.lines(), Version: 7,
		Values: LimitValues{"5", "2", s.text("0.5"), "4", "1000", true}, Reason: s.text("a fire"), Minutes: "30",
		Pause: &LinePause{s.now.Add(-time.Hour), s.now.Add(time.Hour), s.text("ada"), s.text("their API is down")},
	}
	if s.evil {
		v.Stored, v.Errors = &v.Values, []FieldError{{"running", hostile}, {"", hostile}}
	}
	return v
}

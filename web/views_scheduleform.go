package web

import "time"

// ScheduleFormView is the form that changes a schedule, or makes a new one. It sends the values by the API's names of
// their members, name, version, and do: preview or store.
type ScheduleFormView struct {
	Frame
	Fresh    bool   // the schedule is new, and the form asks for its name
	Name     string // of a schedule that is not new
	Version  int64  // on which the change is based; 0 = there must be no such schedule
	Values   ScheduleValues
	Errors   []FieldError
	Others   []string  // what the schedule has beside the form's fields, which stays as it is
	Stored   *Schedule // what is stored, if another caller changed it after the form was shown; nil = nobody did
	Preview  *SchedulePreview
	Tiers    []Plan
	Types    []JobType
	Overlaps []Choice
	CatchUps []Choice
}

// ScheduleValues are what was typed; times are in seconds.
type ScheduleValues struct {
	Name, Cron, Every, Timezone, Jitter, Overlap, CatchUp, Tier, Type, Queue, Payload string
}

// Choice is a word of a list, and what it means.
type Choice struct{ Word, Means string }

// SchedulePreview says what the schedule of a form would fire.
type SchedulePreview struct {
	Next   []Occurrence // empty = nothing more
	Jitter string       // as it was typed; "" or "0" = none
	Paused bool         // nothing of it is fired until the schedule is resumed
}

// Occurrence is a time at which a schedule fires.
type Occurrence struct {
	At    time.Time
	Local string // in the schedule's zone; "" = that is UTC
}

// Of is what is wrong with the field of that name.
func (v ScheduleFormView) Of(field string) []FieldError { return errorsOf(v.Errors, field) }

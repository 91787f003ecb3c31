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
	Others   []string  // the members for which the form has no field; they stay as they are
	Stored   *Schedule // as another caller has stored it after the form was shown; nil = no other caller has
	Preview  *SchedulePreview
	Tiers    []Plan
	Types    []JobType
	Overlaps []Choice
	CatchUps []Choice
}

// ScheduleValues are the values that were typed; times are in seconds.
type ScheduleValues struct {
	Name, Cron, Every, Timezone, Jitter, Overlap, CatchUp, Tier, Type, Queue, Payload string
}

// Choice is a word of a list, and its meaning.
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

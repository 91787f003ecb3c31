package pages

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/client"
	"github.com/tierq/tierq/web"
)

// scheduleValues returns a schedule as the form shows it.
func scheduleValues(s *client.Schedule) web.ScheduleValues {
	v := web.ScheduleValues{
		Name: s.Name, Cron: s.Cron, Timezone: s.Timezone, Overlap: string(s.Overlap), CatchUp: string(s.CatchUp),
		Tier: string(s.Job.Tier), Type: s.Job.Type, Queue: s.Job.Queue, Payload: indented(s.Job.Payload),
	}
	if v.Timezone == "UTC" {
		v.Timezone = ""
	}
	if s.Every > 0 {
		v.Every = strconv.FormatInt(int64(s.Every/time.Second), 10)
	}
	if s.Jitter > 0 {
		v.Jitter = strconv.FormatInt(int64(s.Jitter/time.Second), 10)
	}
	return v
}

func indented(payload json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, present(payload), "", "  ") != nil {
		return string(present(payload))
	}
	return b.String()
}

// otherMembers names the members of a schedule for which the form has no field.
func otherMembers(s *client.Schedule) (list []string) {
	for _, m := range []struct {
		name string
		has  bool
	}{
		{"start", !s.Start.IsZero()}, {"end", !s.End.IsZero()}, {"the key of its line", s.Job.Key != ""},
		{"the number of retries", s.Job.MaxRetries != nil}, {"the maximum time", s.Job.MaxRun > 0},
		{"the callback", s.Job.Callback != ""}, {"when its jobs expire", s.Job.ExpiresIn > 0},
	} {
		if m.has {
			list = append(list, m.name)
		}
	}
	return list
}

// typedSchedule returns the values that a caller typed into the form.
func typedSchedule(form url.Values) web.ScheduleValues {
	text := func(name string) string { return strings.TrimSpace(form.Get(name)) }
	return web.ScheduleValues{
		Name: text("name"), Cron: text("cron"), Every: text("everySeconds"), Timezone: text("timezone"),
		Jitter: text("jitterSeconds"), Overlap: text("overlap"), CatchUp: text("catchUp"), Tier: text("tier"),
		Type: text("type"), Queue: text("queue"), Payload: form.Get("payload"),
	}
}

// readSchedule sets the members of a schedule to the values of the form. wrong names the values that cannot be read.
func readSchedule(v *web.ScheduleValues, s *client.Schedule) (wrong []web.FieldError) {
	seconds := func(field, text string) time.Duration {
		if text == "" {
			return 0
		}
		n, reason := wholeNumber(text)
		if reason == "" && field == "everySeconds" && n == 0 {
			reason = "must be 1 or more"
		}
		if reason != "" {
			wrong = append(wrong, web.FieldError{Field: field, Reason: reason})
		}
		return time.Duration(n) * time.Second
	}
	s.Cron, s.Timezone, s.Overlap, s.CatchUp = v.Cron, v.Timezone, client.Overlap(v.Overlap), client.CatchUp(v.CatchUp)
	s.Every, s.Jitter = seconds("everySeconds", v.Every), seconds("jitterSeconds", v.Jitter)
	s.Job.Tier, s.Job.Type, s.Job.Queue = client.Tier(v.Tier), v.Type, v.Queue
	if s.Job.Payload = nil; strings.TrimSpace(v.Payload) != "" {
		if err := json.Unmarshal([]byte(v.Payload), &s.Job.Payload); err != nil {
			wrong = append(wrong, web.FieldError{Field: "payload", Reason: "is not JSON: " + err.Error()})
		}
	}
	return wrong
}

// previewOf returns the next occurrences of a schedule, as the API has listed them.
func previewOf(s *client.Schedule, jitter string) *web.SchedulePreview {
	v := &web.SchedulePreview{Jitter: jitter, Paused: s.Paused != nil}
	zone, err := time.LoadLocation(cmp.Or(s.Timezone, "UTC"))
	for _, at := range s.Next {
		one := web.Occurrence{At: at}
		if err == nil && zone.String() != "UTC" {
			one.Local = at.In(zone).Format("Mon 15:04:05 MST")
		}
		v.Next = append(v.Next, one)
	}
	return v
}

// scheduleFields are the names of the form's fields.
var scheduleFields = []string{"name", "cron", "everySeconds", "timezone", "jitterSeconds", "overlap", "catchUp", "tier",
	"type", "queue", "payload"}

// scheduleErrors returns the reasons of a refusal, each with the field of the form that it is about.
func scheduleErrors(e *apiError) (list []web.FieldError) {
	for _, f := range e.Fields {
		f.Field = strings.TrimPrefix(f.Field, "job.")
		field, _, _ := strings.Cut(f.Field, ".")
		field, _, _ = strings.Cut(field, "[")
		if !slices.Contains(scheduleFields, field) {
			f = web.FieldError{Reason: f.Field + " " + f.Reason}
		}
		list = append(list, f)
	}
	if len(list) == 0 && e.Code == "UNKNOWN_TIER" {
		list = append(list, web.FieldError{Field: "tier", Reason: "there is no such tier"})
	}
	return list
}

package pages

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/client"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/web"
)

const (
	scheduleEditPath = schedulesPath + "/edit" // with the query name
	scheduleNewPath  = schedulesPath + "/new"
)

const (
	otherSchedule = "Another caller changed this schedule in the meantime, and your changes are not stored. Compare " +
		"them with what is stored now before you store yours."
	goneSchedule = "Another caller deleted this schedule in the meantime, and your changes are not stored. Storing them " +
		"makes it anew."
	thereIsOne = "there is a schedule of this name already"
)

// getScheduleForm serves the form that changes a schedule.
func (p *Pages) getScheduleForm(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	var s client.Schedule
	err := error(errNoSchedule)
	if job.IsScheduleName(name) {
		err = p.ask(r, http.MethodGet, scheduleAt(name), nil, &s)
	}
	if err == nil {
		err = p.mayChangeSchedules(r)
	}
	if err != nil {
		p.fail(w, r, err)
		return
	}
	v := web.ScheduleFormView{
		Frame: p.frame(r), Name: name, Version: s.Version, Values: scheduleValues(&s), Others: otherMembers(&s),
	}
	if s.Paused == nil {
		v.Preview = previewOf(&s, v.Values.Jitter)
	}
	p.showScheduleForm(w, r, http.StatusOK, &v)
}

// getNewSchedule serves the form that makes a schedule.
func (p *Pages) getNewSchedule(w http.ResponseWriter, r *http.Request) {
	if err := p.mayChangeSchedules(r); err != nil {
		p.fail(w, r, err)
		return
	}
	p.showScheduleForm(w, r, http.StatusOK, &web.ScheduleFormView{
		Frame: p.frame(r), Fresh: true,
		Values: web.ScheduleValues{
			Overlap: string(client.OverlapSkip), CatchUp: string(client.CatchUpLast), Tier: string(client.Unpaid),
		},
	})
}

// mayChangeSchedules refuses callers without an admin's key.
func (p *Pages) mayChangeSchedules(r *http.Request) error {
	switch me := p.who(r); {
	case me.Admin:
		return nil
	case me.Name == "":
		return &apiError{Status: http.StatusUnauthorized, Code: "UNAUTHORIZED"}
	}
	return &apiError{Status: http.StatusForbidden, Code: "FORBIDDEN", Detail: "Schedules are changed with an admin key."}
}

// The texts of the form's two lists.
var (
	overlapChoices = []web.Choice{
		{Word: string(client.OverlapSkip), Means: "the next is missed"},
		{Word: string(client.OverlapAllow), Means: "the next runs beside it"},
		{Word: string(client.OverlapOne), Means: "the next waits for its end"},
		{Word: string(client.OverlapReplace), Means: "only the newest waits"},
	}
	catchUpChoices = []web.Choice{
		{Word: string(client.CatchUpLast), Means: "fire the latest"},
		{Word: string(client.CatchUpNone), Means: "fire none"},
		{Word: string(client.CatchUpAll), Means: "fire the last 100"},
	}
)

func (p *Pages) showScheduleForm(w http.ResponseWriter, r *http.Request, status int, v *web.ScheduleFormView) {
	v.Tiers, v.Types, v.Overlaps, v.CatchUps = p.openTiers(r), p.openTypes(r), overlapChoices, catchUpChoices
	if t := v.Values.Tier; t != "" && !slices.ContainsFunc(v.Tiers, func(is web.Plan) bool { return is.Tier == t }) {
		v.Tiers = append(v.Tiers, web.Plan{Tier: t}) // the API says what is wrong with it
	}
	if t := v.Values.Type; t != "" &&
		!slices.ContainsFunc(v.Types, func(known web.JobType) bool { return known.Name == t }) {
		v.Types = append(v.Types, web.JobType{Name: t})
	}
	if v.Here = scheduleNewPath; !v.Fresh {
		v.Here = scheduleEditPath + "?" + url.Values{"name": {v.Name}}.Encode()
	}
	p.show(w, r, status, func(w io.Writer) error { return p.o.Set.ScheduleForm(w, *v) })
}

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

// otherMembers names what a schedule has beside the form's fields.
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

// typedSchedule returns what was typed into the form.
func typedSchedule(form url.Values) web.ScheduleValues {
	text := func(name string) string { return strings.TrimSpace(form.Get(name)) }
	return web.ScheduleValues{
		Name: text("name"), Cron: text("cron"), Every: text("everySeconds"), Timezone: text("timezone"),
		Jitter: text("jitterSeconds"), Overlap: text("overlap"), CatchUp: text("catchUp"), Tier: text("tier"),
		Type: text("type"), Queue: text("queue"), Payload: form.Get("payload"),
	}
}

// readSchedule changes a schedule as the form says. The reasons say what is wrong with what was typed.
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

// previewOf returns what a schedule fires next, as the API has told it.
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

// postScheduleForm says what the schedule of a form would fire, or stores it in place of the version that was shown. If
// another version was stored meanwhile, nothing is stored, and the form shows the typed values beside what is stored.
func (p *Pages) postScheduleForm(w http.ResponseWriter, r *http.Request) {
	if err := p.mayChangeSchedules(r); err != nil {
		p.fail(w, r, err)
		return
	}
	form, err := p.formOf(r, mostForm)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	v := web.ScheduleFormView{Frame: p.frame(r), Values: typedSchedule(form)}
	v.Name = v.Values.Name
	v.Version, err = strconv.ParseInt(form.Get("version"), 10, 64)
	if v.Fresh = err != nil || v.Version <= 0; v.Fresh {
		v.Version = 0
	}
	store := form.Get("do") == "store"
	status, err := p.tryScheduleForm(r, &v, store)
	switch {
	case err != nil:
		p.fail(w, r, err)
	case store && status == http.StatusOK:
		p.back(w, scheduleAddr, url.Values{"name": {v.Name}}, say("schedule_stored", "", v.Version), "")
	case !store && (len(v.Errors) > 0 || status == http.StatusPreconditionFailed):
		p.showScheduleForm(w, r, http.StatusOK, &v) // a preview is answered: the page says why there is none
	default:
		p.showScheduleForm(w, r, status, &v)
	}
}

// tryScheduleForm stores the schedule of a form, or only asks the API what it would fire. The status is OK, or that of
// what is wrong, which the view then says. The error is what leaves the form no place on a page.
func (p *Pages) tryScheduleForm(r *http.Request, v *web.ScheduleFormView, store bool) (status int, err error) {
	if !job.IsScheduleName(v.Name) {
		v.Errors = append(v.Errors, web.FieldError{Field: "name",
			Reason: "has 1 to 80 of A-Z a-z 0-9 . _ - and begins with a letter or a digit"})
		if !v.Fresh {
			return 0, errNoSchedule
		}
		return http.StatusBadRequest, nil
	}
	var s client.Schedule
	if !v.Fresh {
		switch changed, err := p.storedMeanwhile(r, v, &s); {
		case err != nil:
			return 0, err
		case changed:
			return http.StatusPreconditionFailed, nil
		}
	}
	if v.Errors = readSchedule(&v.Values, &s); len(v.Errors) > 0 {
		return http.StatusBadRequest, nil
	}
	return p.putSchedule(r, v, &s, store)
}

// storedMeanwhile reads the schedule that a form changes. If that is not the version that the form was based on, it
// says so in the view, with what is stored, and returns true.
func (p *Pages) storedMeanwhile(r *http.Request, v *web.ScheduleFormView, s *client.Schedule) (changed bool,
	err error) {
	err = p.ask(r, http.MethodGet, scheduleAt(v.Name), nil, s)
	switch {
	case refusedWith(err, http.StatusNotFound):
		v.Trouble, v.Version, v.Fresh = goneSchedule, 0, true
		return true, nil
	case err != nil:
		return false, err
	}
	v.Others = otherMembers(s)
	if s.Version == v.Version {
		return false, nil
	}
	stored := scheduleShown(s)
	v.Trouble, v.Version, v.Stored = otherSchedule, s.Version, &stored
	return true, nil
}

// putSchedule sends a schedule to the API. What the API says is wrong stands beside its field.
func (p *Pages) putSchedule(r *http.Request, v *web.ScheduleFormView, s *client.Schedule, store bool) (int, error) {
	based, path := with(r, "If-None-Match", "*"), scheduleAt(v.Name)
	if !v.Fresh {
		based = with(r, "If-Match", s.ETag())
	}
	if !store {
		path += "?dryRun=true"
	}
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false) // leaves the payload's text unchanged
	if err := e.Encode(s.Wanted()); err != nil {
		return 0, err
	}
	var now client.Schedule
	err := p.ask(based, http.MethodPut, path, body.Bytes(), &now)
	if err == nil {
		if v.Preview = previewOf(&now, v.Values.Jitter); store {
			v.Version = now.Version
		}
		return http.StatusOK, nil
	}
	refusal, ok := errors.AsType[*apiError](err)
	if !ok || refusal.Status == http.StatusUnauthorized {
		return 0, err
	}
	if refusal.Status == http.StatusPreconditionFailed {
		if v.Fresh {
			v.Errors = []web.FieldError{{Field: "name", Reason: thereIsOne}}
			return refusal.Status, nil
		}
		if changed, err := p.storedMeanwhile(r, v, s); err != nil || changed {
			return refusal.Status, err
		}
	}
	v.Errors = scheduleErrors(refusal)
	if len(v.Errors) == 0 {
		v.Trouble = refusal.Detail
	}
	return refusal.Status, nil
}

// scheduleFields are the names of the form's fields.
var scheduleFields = []string{"name", "cron", "everySeconds", "timezone", "jitterSeconds", "overlap", "catchUp", "tier",
	"type", "queue", "payload"}

// scheduleErrors returns what the API says is wrong by the form's fields.
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

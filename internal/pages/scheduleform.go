package pages

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"

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
		v.Tiers = append(v.Tiers, web.Plan{Tier: t}) // the API says why it refuses this tier
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

// postScheduleForm shows the occurrences that the schedule of a form would fire, or stores the schedule in place of the
// version that was shown. If another version was stored meanwhile, postScheduleForm stores nothing, and the form shows
// the typed values beside the stored ones.
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

// tryScheduleForm stores the schedule of a form, or only asks the API for the occurrences that it would fire. status is
// OK, or that of a refusal whose reasons are then in the view. After an error the page cannot show the form.
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

// storedMeanwhile reads the schedule that a form changes into s. If the form was based on another version, it returns
// true, and the view shows the stored schedule.
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

// putSchedule sends a schedule to the API. The reasons of a refusal are in the view, each at its field.
func (p *Pages) putSchedule(r *http.Request, v *web.ScheduleFormView, s *client.Schedule, store bool) (int, error) {
	based, path := with(r, "If-None-Match", "*"), scheduleAt(v.Name)
	if !v.Fresh {
		based = with(r, "If-Match", s.ETag())
	}
	if !store {
		path += "?dryRun=true"
	}
	body, err := s.Wanted().MarshalJSON() // leaves the payload's text unchanged
	if err != nil {
		return 0, err
	}
	var now client.Schedule
	err = p.ask(based, http.MethodPut, path, body, &now)
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

package pages

import (
	"errors"
	"io"
	"net/http"
	"net/url"

	"github.com/tierq/tierq/client"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/web"
)

const (
	schedulesPath = dashboardPath + "/schedules"
	scheduleAddr  = schedulesPath + "/one" // with the query name
)

// shownRuns is how many runs the page of a schedule lists.
const shownRuns = 10

// getSchedules serves the page with all schedules.
func (p *Pages) getSchedules(w http.ResponseWriter, r *http.Request) {
	var now struct{ Items []client.Schedule }
	if err := p.ask(r, http.MethodGet, "/admin/schedules", nil, &now); err != nil {
		p.fail(w, r, err)
		return
	}
	v := web.SchedulesView{Frame: p.frame(r)}
	for i := range now.Items {
		v.Schedules = append(v.Schedules, scheduleShown(&now.Items[i]))
	}
	p.show(w, r, http.StatusOK, func(w io.Writer) error { return p.o.Set.Schedules(w, v) })
}

func scheduleShown(s *client.Schedule) web.Schedule {
	shown := web.Schedule{
		Name: s.Name, Cron: s.Cron, Every: s.Every, Timezone: s.Timezone,
		Tier: string(s.Job.Tier), Type: s.Job.Type, Queue: s.Job.Queue,
		Overlap: string(s.Overlap), CatchUp: string(s.CatchUp), Jitter: s.Jitter, Start: s.Start, End: s.End, Owner: s.Owner,
		Payload: present(s.Job.Payload), Next: s.Next, Last: s.Last, Version: s.Version,
	}
	if pause := s.Paused; pause != nil {
		shown.Pause = &web.SchedulePause{Since: pause.Since, By: pause.By, Reason: pause.Reason}
	}
	return shown
}

// scheduleAt returns the API's address of a schedule.
func scheduleAt(name string) string { return "/admin/schedules/" + url.PathEscape(name) }

// getSchedule serves the page of one schedule.
func (p *Pages) getSchedule(w http.ResponseWriter, r *http.Request) {
	p.showSchedule(w, r, http.StatusOK, r.URL.Query().Get("name"), web.ScheduleView{Frame: p.frame(r)})
}

var errNoSchedule = &apiError{
	Status: http.StatusNotFound, Code: "UNKNOWN_SCHEDULE", Detail: "There is no such schedule.",
}

func (p *Pages) showSchedule(w http.ResponseWriter, r *http.Request, status int, name string, v web.ScheduleView) {
	if !job.IsScheduleName(name) {
		p.fail(w, r, errNoSchedule)
		return
	}
	var s client.Schedule
	if err := p.ask(r, http.MethodGet, scheduleAt(name), nil, &s); err != nil {
		p.fail(w, r, err)
		return
	}
	v.Schedule, v.Here = scheduleShown(&s), scheduleAddr+"?"+url.Values{"name": {name}}.Encode()
	for _, run := range s.Runs[:min(len(s.Runs), shownRuns)] {
		v.Runs = append(v.Runs, web.ScheduleRun{
			Occurrence: run.Occurrence, Through: run.Through, JobID: run.JobID, Living: run.Living, Asked: run.Asked,
			Missed: run.Missed, Reason: run.Reason, Detail: run.Detail,
		})
	}
	p.show(w, r, status, func(w io.Writer) error { return p.o.Set.Schedule(w, v) })
}

// scheduleDone are the texts about what the form of a schedule did, by the button.
var scheduleDone = map[string]string{
	"run": "schedule_run", "pause": "schedule_paused", "resume": "schedule_resumed",
}

// postSchedule runs, pauses or resumes a schedule. If the API refuses that, the page says why.
func (p *Pages) postSchedule(w http.ResponseWriter, r *http.Request) {
	form, err := p.form(r)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	name, do := form.Get("name"), form.Get("do")
	if scheduleDone[do] == "" || !job.IsScheduleName(name) {
		p.showSchedule(w, r, http.StatusBadRequest, name, web.ScheduleView{Frame: p.frame(r)})
		return
	}
	var body any
	if do == "pause" {
		body = map[string]string{"reason": form.Get("reason")}
	}
	if err = p.ask(r, http.MethodPost, scheduleAt(name)+"/"+do, body, nil); err == nil {
		p.back(w, scheduleAddr, url.Values{"name": {name}}, say(scheduleDone[do], ""), "")
		return
	}
	refusal, ok := errors.AsType[*apiError](err)
	if !ok || refusal.Status == http.StatusUnauthorized || refusal.Status == http.StatusNotFound {
		p.fail(w, r, err)
		return
	}
	v := web.ScheduleView{Frame: p.frame(r), Reason: form.Get("reason")}
	v.Trouble = refusal.Detail
	p.showSchedule(w, r, refusal.Status, name, v)
}

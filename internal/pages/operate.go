package pages

import (
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/web"
)

// This file has what only operators do to one job: kill, hasten and dismiss. A kill and a dismissal ask first, on a
// page of their own: it needs no script.

// postHasten makes a scheduled job ready, and shows the job.
func (p *Pages) postHasten(w http.ResponseWriter, r *http.Request) {
	p.change(w, r, func(id string, why any) (string, error) {
		return say("hastened", ""), p.ask(r, http.MethodPost, "/admin/jobs/"+id+"/hasten", why, nil)
	})
}

// postKill makes a waiting job a dead letter, and shows the job.
func (p *Pages) postKill(w http.ResponseWriter, r *http.Request) {
	p.changeSurely(w, r, web.ConfirmView{
		Title: "Kill this job?", Button: "Kill it", Action: "/poll/kill",
		Detail: "It becomes a dead letter at once: FAILED, with the cause KILLED. It can be requeued later.",
	}, func(id string, why any) (string, error) {
		return say("killed", ""), p.ask(r, http.MethodPost, "/admin/jobs/"+id+"/kill", why, nil)
	})
}

// dismissal asks before a dead letter is dismissed.
var dismissal = web.ConfirmView{
	Title: "Dismiss this dead letter?", Button: "Dismiss it",
	Detail: "It leaves the list of dead letters. Its job stays FAILED, with its history, and can still be requeued.",
}

// postDismiss takes a job's dead letter off the list, and shows the job.
func (p *Pages) postDismiss(w http.ResponseWriter, r *http.Request) {
	asks := dismissal
	asks.Action = "/poll/dismiss"
	p.changeSurely(w, r, asks, func(id string, why any) (string, error) {
		return say("dismissed", ""), p.dismiss(r, id, why)
	})
}

func (p *Pages) dismiss(r *http.Request, id string, why any) error {
	return p.ask(r, http.MethodPost, "/admin/dead/"+id+"/dismiss", why, nil)
}

// postDeadDismiss takes one dead letter off the list, and shows the list.
func (p *Pages) postDeadDismiss(w http.ResponseWriter, r *http.Request) {
	f, err := p.form(r)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	q := asked(f)
	q.ID, q.Status, q.Text = "", "", ""
	list := deadQuery(&q)
	id, err := job.ParseID(f.Get("one"))
	switch {
	case err != nil:
		p.back(w, deadPath, list, "", say("nothing_chosen", ""))
		return
	case f.Get("confirmed") != "yes":
		asks := dismissal
		asks.Action, asks.Back, asks.Fields = deadPath+"/dismiss", deadPath, []web.Field{{Name: "one", Value: string(id)}}
		for _, name := range []string{"tier", "type", "cause", "from", "to"} {
			if value := list.Get(name); value != "" {
				asks.Fields = append(asks.Fields, web.Field{Name: name, Value: value})
			}
		}
		if len(list) > 0 {
			asks.Back += "?" + list.Encode()
		}
		p.confirm(w, r, deadPath, asks)
		return
	}
	if err := p.dismiss(r, string(id), nil); err != nil {
		reason, err := p.reason(r, err)
		if err != nil {
			p.fail(w, r, err)
			return
		}
		p.back(w, deadPath, list, "", say("refused", reason))
		return
	}
	p.back(w, deadPath, list, say("dismissed", ""), "")
}

// changeSurely is change for an action that asks first. asks is the page that does, without its fields.
func (p *Pages) changeSurely(
	w http.ResponseWriter, r *http.Request, asks web.ConfirmView, do func(id string, why any) (done string, err error),
) {
	f, err := p.form(r)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	id, err := job.ParseID(f.Get("jobId"))
	if err != nil || f.Get("confirmed") == "yes" {
		p.changeOf(w, r, f, do)
		return
	}
	asks.Back = "/poll?" + url.Values{"jobId": {string(id)}}.Encode()
	asks.Fields = []web.Field{{Name: "jobId", Value: string(id)}}
	if reason := strings.TrimSpace(f.Get("reason")); reason != "" {
		asks.Fields = append(asks.Fields, web.Field{Name: "reason", Value: reason})
	}
	p.confirm(w, r, "/poll", asks)
}

// confirm shows a page that asks.
func (p *Pages) confirm(w http.ResponseWriter, r *http.Request, path string, v web.ConfirmView) {
	v.Frame = p.frame(r)
	v.Path, v.Here = path, v.Back
	p.show(w, r, http.StatusOK, func(w io.Writer) error { return p.o.Set.Confirm(w, v) })
}

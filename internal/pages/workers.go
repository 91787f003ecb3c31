package pages

import (
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/tierq/tierq/client"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/web"
)

const workersPath = dashboardPath + "/workers"

// workerName is what the API lists as the name of a worker: its own, with the id of its key before it.
var workerName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)

// workerAsk is what an operator can ask of a worker, with the texts of the page that asks for confirmation.
type workerAsk struct {
	verb, button string
	server, own  string // what happens to a process of tierq, and to a worker of another program
}

var workerAsks = []workerAsk{
	{"quiet", "Quiet",
		"It claims no more jobs, and finishes those that it has. The process goes on with everything else, until you " +
			"resume its worker.",
		"It gets no more jobs, and finishes those that it has, until you resume it."},
	{"resume", "Resume", "It claims jobs again.", "It gets jobs again."},
	{"terminate", "Terminate",
		"The process ends with all that it does, its API too: it finishes its jobs, or gives them back. What started " +
			"the process decides whether it comes back.",
		"It is told to end: it finishes its jobs, or gives them back."},
}

var errNoWorker = &apiError{Status: http.StatusNotFound, Code: "NOT_FOUND"}

// WorkerWords says a worker's kind, and what an operator asks of it, for the dashboard.
func WorkerWords(kind, language, asked string) string {
	if job.KindElsewhere(kind) {
		kind = strings.TrimSpace("own " + language)
	} else {
		kind = "server"
	}
	switch job.WorkerState(asked) {
	case job.WorkerQuiet:
		return kind + ", quiet"
	case job.WorkerTerminates:
		return kind + ", terminate asked"
	}
	return kind
}

// postWorkers asks one worker to be quiet, to resume or to end, after the caller has confirmed it. A form that names
// no worker asks nothing.
func (p *Pages) postWorkers(w http.ResponseWriter, r *http.Request) {
	if me := p.who(r); !me.Open && me.Name == "" {
		p.toLogin(w, r, dashboardPath)
		return
	} else if !me.Admin {
		p.fail(w, r, &apiError{Status: http.StatusForbidden, Code: "FORBIDDEN",
			Detail: "Workers are told what to do with an admin key."})
		return
	}
	form, err := p.form(r)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	at := slices.IndexFunc(workerAsks, func(a workerAsk) bool { return form.Get(a.verb) != "" })
	if at < 0 {
		p.back(w, dashboardPath, nil, "", say("no_worker", ""))
		return
	}
	ask, name := workerAsks[at], form.Get(workerAsks[at].verb)
	switch {
	case !workerName.MatchString(name):
		err = errNoWorker
	case form.Get("confirmed") == "yes":
		err = p.ask(r, http.MethodPost, "/admin/workers/"+url.PathEscape(name)+"/"+ask.verb, nil, nil)
	default:
		if err = p.confirmWorker(w, r, ask, name); err == nil {
			return
		}
	}
	if err == nil {
		p.back(w, dashboardPath, nil, say("worker_"+ask.verb, ""), "")
		return
	}
	reason, err := p.reason(r, err)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	p.back(w, dashboardPath, nil, "", say("refused", reason))
}

// confirmWorker asks for confirmation. It returns an error, and writes nothing, if there is no such worker or the
// workers cannot be listed.
func (p *Pages) confirmWorker(w http.ResponseWriter, r *http.Request, ask workerAsk, name string) error {
	var all struct{ Items []client.Worker }
	if err := p.ask(r, http.MethodGet, "/admin/workers", nil, &all); err != nil {
		return err
	}
	at := slices.IndexFunc(all.Items, func(w client.Worker) bool { return w.Name == name })
	if at < 0 {
		return errNoWorker
	}
	v := web.ConfirmView{
		Frame: p.frame(r), Title: ask.button + " " + name + "?", Button: ask.button, Detail: ask.server,
		Action: workersPath, Back: dashboardPath, Fields: []web.Field{{Name: ask.verb, Value: name}},
	}
	if job.KindElsewhere(all.Items[at].Kind) {
		v.Detail = ask.own
	}
	v.Path, v.Here = dashboardPath, dashboardPath
	p.show(w, r, http.StatusOK, func(w io.Writer) error { return p.o.Set.Confirm(w, v) })
	return nil
}

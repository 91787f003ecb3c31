package pages

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/web"
)

// requeued is the result of a bulk requeue, or of its dry run.
type requeued struct {
	Matched  int64 `json:"matched"`
	Requeued int64 `json:"requeued"`
}

func (p *Pages) requeueAll(r *http.Request, q *web.Query, limit int, dryRun bool) (done requeued, err error) {
	body := map[string]any{"limit": limit, "dryRun": dryRun}
	for name, value := range map[string]string{"tier": q.Tier, "type": q.Type, "cause": q.Cause, "after": q.From,
		"before": q.To} {
		if value != "" {
			body[name] = value
		}
	}
	return done, p.ask(r, http.MethodPost, requeuePath, body, &done)
}

// postDeadRequeue requeues one dead letter, the selected ones, or all that pass a filter. A form that says none of
// these requeues nothing.
func (p *Pages) postDeadRequeue(w http.ResponseWriter, r *http.Request) {
	if me := p.who(r); !me.Open && me.Name == "" {
		p.toLogin(w, r, whence(r))
		return
	}
	form, err := p.form(r)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	q := asked(form)
	q.ID, q.Status, q.Text = "", "", ""
	var done, trouble string
	switch one, scope := form.Get("one"), form.Get("scope"); {
	case one != "":
		done, trouble, err = p.requeueChosen(r, []string{one})
	case scope == "selected":
		done, trouble, err = p.requeueChosen(r, form["id"])
	case scope == "all":
		expected, known := confirmed(form)
		if !known {
			if p.confirmAll(w, r, &q) {
				return
			}
			trouble = say("none_passes", "")
			break
		}
		done, trouble, err = p.requeueConfirmed(r, &q, expected)
	default:
		trouble = say("nothing_chosen", "")
	}
	if err != nil {
		p.fail(w, r, err)
		return
	}
	p.back(w, deadPath, deadQuery(&q), done, trouble)
}

// confirmed returns how many letters were shown to the user who confirmed.
func confirmed(form url.Values) (expected int, yes bool) {
	n, err := strconv.Atoi(form.Get("expected"))
	return n, form.Get("confirmed") == "yes" && err == nil && n >= 1 && n <= mostRequeue
}

// confirmAll asks for confirmation before all letters that pass a filter are requeued, and shows their number. It
// returns false, and writes nothing, if there are none.
func (p *Pages) confirmAll(w http.ResponseWriter, r *http.Request, q *web.Query) bool {
	counted, err := p.requeueAll(r, q, mostRequeue, true)
	if err != nil {
		p.fail(w, r, err)
		return true
	}
	if counted.Matched < 1 {
		return false
	}
	n := min(counted.Matched, mostRequeue)
	v := web.ConfirmView{
		Frame: p.frame(r), Title: "Requeue " + letterCount(n) + "?", Button: "Requeue " + thousands(n),
		Action: deadPath + "/requeue", Back: deadPath,
		Detail: "Each keeps its id, and gets all its retries again and a new arrival. The server limits the rate of " +
			"requeues, so this may take a minute.",
		Fields: []web.Field{{Name: "scope", Value: "all"}, {Name: "expected", Value: strconv.FormatInt(n, 10)}},
	}
	if counted.Matched >= mostRequeue {
		v.Detail += " There may be more: one requeue takes the newest " + thousands(mostRequeue) + "."
	}
	v.Path = deadPath
	filter := deadQuery(q)
	if len(filter) > 0 {
		v.Back += "?" + filter.Encode()
	}
	v.Here = v.Back
	for _, name := range []string{"tier", "type", "cause", "from", "to"} {
		if value := filter.Get(name); value != "" {
			v.Fields = append(v.Fields, web.Field{Name: name, Value: value})
			v.Detail += " Only " + name + " " + value + "."
		}
	}
	p.show(w, r, http.StatusOK, func(w io.Writer) error { return p.o.Set.Confirm(w, v) })
	return true
}

// requeueConfirmed requeues at most as many letters as were shown.
func (p *Pages) requeueConfirmed(r *http.Request, q *web.Query, expected int) (done, trouble string, err error) {
	result, err := p.requeueAll(r, q, expected, false)
	if err != nil {
		reason, err := p.reason(r, err)
		return "", say("refused", reason), err
	}
	done = say("requeued", "", result.Requeued)
	if result.Requeued > 0 {
		p.tellRequeue(r, "", "requeued "+letterCount(result.Requeued))
	}
	if result.Requeued < min(int64(expected), result.Matched) {
		return "", say("rest_here", "", result.Requeued, int64(expected)), nil
	}
	return done, "", nil
}

// requeueChosen requeues dead letters one by one. An error about one letter does not stop the others; an error of
// the server does.
func (p *Pages) requeueChosen(r *http.Request, ids []string) (done, trouble string, err error) {
	slices.Sort(ids)
	ids = slices.Compact(ids)
	switch {
	case len(ids) == 0:
		return "", say("none_selected", ""), nil
	case len(ids) > mostChosen:
		return "", say("too_many", "", int64(len(ids))), nil
	}
	good, why := 0, ""
	for _, text := range ids {
		id, bad := job.ParseID(text)
		if bad != nil {
			why = "JOB_NOT_FOUND"
			continue
		}
		err := p.ask(r, http.MethodPost, "/jobs/"+string(id)+"/retry", nil, nil)
		if err == nil {
			good++
			p.tellRequeue(r, string(id), "requeued it")
			continue
		}
		reason, bad := p.reason(r, err)
		if bad != nil && good == 0 {
			return "", "", bad
		}
		if why = cmp.Or(reason, "UNAUTHORIZED"); !refusedWith(err, http.StatusNotFound, http.StatusConflict) {
			break
		}
	}
	switch {
	case why == "" && good == 1:
		return say("one_requeued", ""), "", nil
	case why == "":
		return say("requeued", "", int64(good)), "", nil
	case len(ids) == 1:
		return "", say("not_requeued", why), nil
	}
	return "", say("some_requeued", why, int64(good), int64(len(ids))), nil
}

// reason returns the code of a refusal, for the page that the browser goes back to. An error that needs a page of
// its own, such as the login, is returned as an error.
func (p *Pages) reason(r *http.Request, err error) (string, error) {
	if refusedWith(err, http.StatusUnauthorized) || errors.Is(err, r.Context().Err()) {
		return "", err
	}
	return p.refusalIn(r, err).code(), nil
}

func letterCount(n int64) string {
	if n == 1 {
		return "1 dead letter"
	}
	return thousands(n) + " dead letters"
}

// thousands formats 1204 as "1,204".
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

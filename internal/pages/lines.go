package pages

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/tierq/tierq/client"
	"github.com/tierq/tierq/web"
)

const (
	linesPath = dashboardPath + "/lines"
	lineAddr  = linesPath + "/key" // with the query key or owner
)

// shownLines is how many lines the page lists.
const shownLines = 20

// getLines serves the page with the longest lines.
func (p *Pages) getLines(w http.ResponseWriter, r *http.Request) {
	v := web.LinesView{Order: r.URL.Query().Get("sort")}
	if v.Order != string(client.ByRunning) && v.Order != string(client.ByShare) {
		v.Order = string(client.ByWaiting)
	}
	query := url.Values{"limit": {strconv.Itoa(shownLines)}, "sort": {v.Order}}
	var now client.Lines
	if err := p.ask(r, http.MethodGet, "/admin/lines?"+query.Encode(), nil, &now); err != nil {
		p.fail(w, r, err)
		return
	}
	v.Frame, v.Lines, v.Total, v.Running = p.frame(r), shownAs(now.Items), now.Lines, now.Running
	p.show(w, r, http.StatusOK, func(w io.Writer) error { return p.o.Set.Lines(w, v) })
}

func shownAs(lines []client.Line) []web.Line {
	list := make([]web.Line, len(lines))
	for i, l := range lines {
		list[i] = web.Line{
			LineKey: web.LineKey(l.LineKey), Tier: string(l.Tier), Queue: l.Queue, Waiting: l.Waiting, Running: l.Running,
			Share: l.Share, Noisy: l.Noisy, Parked: l.Parked, Until: l.Until,
		}
	}
	return list
}

// lineWords says in which line a job waits, and how many attempts of the line's key run; "" = in none.
func lineWords(l *client.LinePlace) string {
	if l == nil {
		return ""
	}
	line := "the line of the jobs without a key"
	switch {
	case l.Key != "":
		line = "the line of the key " + l.Key
	case l.Owner != "":
		line = "the line of the API key " + l.Owner
	}
	switch l.Running {
	case 0:
		return "It waits in " + line
	case 1:
		return "It waits in " + line + ", of which 1 attempt runs"
	}
	return fmt.Sprintf("It waits in %s, of which %d attempts run", line, l.Running)
}

// lineOf is what the API says about one key.
type lineOf struct {
	Items  []client.Line
	Limits client.LineLimits
}

// line reads the lines and limits of the key that an address or a form names.
func (p *Pages) line(r *http.Request, named url.Values) (now lineOf, err error) {
	key := client.LineKey{Key: named.Get("key"), Owner: named.Get("owner")}
	err = p.ask(r, http.MethodGet, "/admin/lines?"+key.Query().Encode(), nil, &now)
	now.Limits.LineKey = key
	return now, err
}

// viewLine returns the page of a key, with its limits as they are stored.
func (p *Pages) viewLine(r *http.Request, now *lineOf) web.LineView {
	v := web.LineView{
		Frame: p.frame(r), LineKey: web.LineKey(now.Limits.LineKey), Lines: shownAs(now.Items), Version: now.Limits.Version,
		Values: limitValues(&now.Limits),
	}
	if pause := now.Limits.Paused; pause != nil {
		v.Pause = &web.LinePause{Since: pause.Since, Until: pause.Until, By: pause.By, Reason: pause.Reason}
	}
	return v
}

func (p *Pages) showLine(w http.ResponseWriter, r *http.Request, status int, v *web.LineView) {
	v.Here = lineAddr + "?" + client.LineKey(v.LineKey).Query().Encode()
	p.show(w, r, status, func(w io.Writer) error { return p.o.Set.Line(w, *v) })
}

// getLine serves the page of one key.
func (p *Pages) getLine(w http.ResponseWriter, r *http.Request) {
	now, err := p.line(r, r.URL.Query())
	if err != nil {
		p.fail(w, r, err)
		return
	}
	v := p.viewLine(r, &now)
	p.showLine(w, r, http.StatusOK, &v)
}

// lineDone are the texts about what the forms of a key did, by the button.
var lineDone = map[string]string{"store": "limits_stored", "pause": "line_paused", "resume": "line_resumed"}

// postLine changes the limits of a key in place of the version that was shown. If another version was stored
// meanwhile, it shows the typed values beside what is stored now.
func (p *Pages) postLine(w http.ResponseWriter, r *http.Request) {
	form, err := p.form(r)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	now, err := p.line(r, form)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	v, wanted := p.viewLine(r, &now), now.Limits
	switch form.Get("do") {
	case "pause":
		wanted.Paused = readPause(form, &v)
	case "resume":
		wanted.Paused = nil
	default:
		form.Set("do", "store")
		readLimits(form, &wanted, &v)
	}
	version, bad := strconv.ParseInt(form.Get("version"), 10, 64)
	switch {
	case len(v.Errors) > 0:
		p.showLine(w, r, http.StatusBadRequest, &v)
	case bad != nil || version != now.Limits.Version:
		stored := limitValues(&now.Limits)
		v.Trouble, v.Stored = otherLimits, &stored
		p.showLine(w, r, http.StatusPreconditionFailed, &v)
	default:
		p.storeLimits(w, r, &v, &now.Limits, wanted, lineDone[form.Get("do")])
	}
}

const otherLimits = "Another caller changed these limits in the meantime, and your changes are not stored. Compare " +
	"them with what is stored now before you store yours."

// storeLimits stores limits in place of the version before them. After any error the form keeps the typed values.
func (p *Pages) storeLimits(w http.ResponseWriter, r *http.Request, v *web.LineView, before *client.LineLimits,
	wanted client.LineLimits, done string) {
	query := before.Query()
	based := with(r, "If-Match", before.ETag())
	if before.Version == 0 {
		based = with(r, "If-None-Match", "*")
	}
	err := p.ask(based, http.MethodPut, "/admin/lines?"+query.Encode(), wanted.Wanted(), nil)
	if err == nil {
		p.back(w, lineAddr, query, say(done, ""), "")
		return
	}
	refusal, ok := errors.AsType[*apiError](err)
	if !ok || refusal.Status == http.StatusUnauthorized {
		p.fail(w, r, err)
		return
	}
	v.Trouble = refusal.Detail
	if refusal.Status == http.StatusPreconditionFailed {
		now, err := p.line(r, query)
		if err != nil {
			p.fail(w, r, err)
			return
		}
		stored := limitValues(&now.Limits)
		v.Trouble, v.Stored, v.Version = otherLimits, &stored, now.Limits.Version
	}
	for _, e := range refusal.Fields {
		if !slices.ContainsFunc(limitFields, func(f limitField) bool { return f.name == e.Field }) {
			e = web.FieldError{Reason: e.Field + " " + e.Reason}
		}
		v.Errors = append(v.Errors, e)
	}
	p.showLine(w, r, refusal.Status, v)
}

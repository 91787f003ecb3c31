package pages

import (
	"encoding/json"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/web"
)

// getSubmit serves /submit: the form, with the tier and the type of a link.
func (p *Pages) getSubmit(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	v := web.SubmitView{Frame: p.frame(r), Values: web.SubmitValues{Tier: q.Get("tier"), Type: q.Get("type")}}
	if me := p.who(r); !me.Submits && v.Trouble == "" {
		v.Trouble = "You need an API key to submit: log in first."
		if me.Name != "" {
			v.Trouble = "The key that you logged in with may not submit jobs."
		}
	}
	p.showSubmit(w, r, http.StatusOK, v)
}

func (p *Pages) showSubmit(w http.ResponseWriter, r *http.Request, status int, v web.SubmitView) {
	v.Plans, v.Base, v.Types = p.openTiers(r), p.base(r), p.openTypes(r)
	if t := v.Values.Type; t != "" &&
		!slices.ContainsFunc(v.Types, func(known web.JobType) bool { return known.Name == t }) {
		v.Types = append(v.Types, web.JobType{Name: t}) // the API says what is wrong with it
	}
	if !reads(r) {
		v.Here = r.URL.Path
	}
	p.show(w, r, status, func(w io.Writer) error { return p.o.Set.Submit(w, v) })
}

// openTiers returns the tiers to which the caller may submit, with what the caller may know of them. For a caller
// who may not submit it returns the tiers that the caller may see.
func (p *Pages) openTiers(r *http.Request) (list []web.Plan) {
	for _, t := range p.who(r).Tiers {
		list = append(list, web.Plan{
			Tier: t.Tier, MaxRetries: t.MaxRetries, MaxProcessingTime: time.Duration(t.MaxProcessingTimeMs) * time.Millisecond,
		})
	}
	if len(list) == 0 {
		return p.plans(r)
	}
	return list
}

// openTypes returns the job types that the caller may submit: types that the form knows, and types that only this
// server has. For a caller who may not submit it returns the types that the form knows.
func (p *Pages) openTypes(r *http.Request) (list []web.JobType) {
	known, open := p.o.Set.Types(), p.who(r).Types
	if len(open) == 0 {
		return known
	}
	for _, t := range known {
		if slices.Contains(open, t.Name) {
			list = append(list, t)
		}
	}
	for _, name := range open {
		if !slices.ContainsFunc(known, func(t web.JobType) bool { return t.Name == name || slices.Contains(t.Also, name) }) {
			list = append(list, web.JobType{Name: name})
		}
	}
	return list
}

// postSubmit submits and shows the job, or shows the form again with the typed values and what is wrong with them.
//
// On a server with keys a small form without a key is still read, so that the typed values are not lost; for a
// larger one the caller is sent to the login first.
func (p *Pages) postSubmit(w http.ResponseWriter, r *http.Request) {
	most, me := mostForm, p.who(r)
	stranger := !me.Open && me.Name == ""
	if stranger {
		most = smallForm
	}
	f, err := p.formOf(r, most)
	if stranger && refusedWith(err, http.StatusRequestEntityTooLarge) {
		p.toLogin(w, r, r.URL.Path)
		return
	}
	if err != nil {
		p.fail(w, r, err)
		return
	}
	v := web.SubmitView{Values: web.SubmitValues{
		Tier: f.Get("tier"), Type: f.Get("type"), Payload: f.Get("payload"),
		MaxRetries:   strings.TrimSpace(f.Get("maxRetries")),
		DelaySeconds: strings.TrimSpace(f.Get("delaySeconds")), CallbackURL: strings.TrimSpace(f.Get("callbackUrl")),
		IdempotencyKey: f.Get("idempotencyKey"),
	}}
	body, wrong := submission(&v.Values)
	path, ok := submitPath(v.Values.Tier)
	if !ok {
		wrong = append([]web.FieldError{{Field: "tier", Reason: "there is no such tier"}}, wrong...)
	}
	if len(wrong) > 0 {
		v.Frame, v.Errors = p.frame(r), wrong
		p.showSubmit(w, r, http.StatusBadRequest, v)
		return
	}
	ask := r
	if key := v.Values.IdempotencyKey; key != "" {
		ask = with(r, "Idempotency-Key", key)
	}
	var accepted struct {
		Data struct{ JobID string } `json:"apiResponseData"`
	}
	if err := p.ask(ask, http.MethodPost, path, body, &accepted); err != nil {
		p.refuseSubmit(w, r, v, err)
		return
	}
	see(w, jobPage(accepted.Data.JobID))
}

// jobPage returns the address of a job's page.
func jobPage(id string) string { return "/poll?" + url.Values{"jobId": {id}}.Encode() }

// submission returns the typed values as the body of an API call. The payload is copied byte for byte.
func submission(v *web.SubmitValues) (body []byte, wrong []web.FieldError) {
	body = append(body, '{')
	member := func(name string, value []byte) {
		if len(body) > 1 {
			body = append(body, ',')
		}
		body = append(append(strconv.AppendQuote(body, name), ':'), value...)
	}
	text := func(name, value string) {
		if value != "" {
			quoted, _ := json.Marshal(value) // cannot fail for a string
			member(name, quoted)
		}
	}
	refuse := func(field, reason string) { wrong = append(wrong, web.FieldError{Field: field, Reason: reason}) }

	text("type", v.Type)
	if strings.Trim(v.Payload, " \t\r\n") != "" {
		var whole json.RawMessage
		// exactly one value: the text cannot smuggle in further members
		if err := json.Unmarshal([]byte(v.Payload), &whole); err != nil {
			refuse("payload", "is not JSON: "+err.Error())
		}
		member("payload", []byte(v.Payload))
	}
	if v.MaxRetries != "" {
		n, err := strconv.Atoi(v.MaxRetries)
		if err != nil || n < 0 {
			refuse("maxRetries", "must be a whole number, 0 or more")
		}
		member("maxRetries", strconv.AppendInt(nil, int64(n), 10))
	}
	if v.DelaySeconds != "" {
		s, err := strconv.ParseFloat(v.DelaySeconds, 64)
		if err != nil || math.IsNaN(s) || math.IsInf(s, 0) || s < 0 {
			refuse("delaySeconds", "must be a number of seconds, 0 or more")
			s = 0
		}
		member("delaySeconds", strconv.AppendFloat(nil, s, 'f', -1, 64))
	}
	text("callbackUrl", v.CallbackURL)
	return append(body, '}'), wrong
}

// submitPath returns the API's path for submits to a tier.
func submitPath(tier string) (string, bool) {
	for _, c := range tier {
		if !(c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_') {
			return "", false
		}
	}
	return "/" + strings.ToLower(tier) + "/submit", tier != "" && len(tier) <= 31
}

// fieldOf maps the API's names of fields to the form's.
var fieldOf = map[string]string{"Idempotency-Key": "idempotencyKey", "jobType": "type"}

// refuseSubmit shows the form again. An error about a field is beside the field, other errors are above the form.
// No error leads away from the form, so that the typed values are not lost; not even to the login.
func (p *Pages) refuseSubmit(w http.ResponseWriter, r *http.Request, v web.SubmitView, err error) {
	if r.Context().Err() != nil {
		return
	}
	e := p.refusalIn(r, err)
	v.Frame = p.frame(r)
	for _, f := range e.Fields {
		if name, ok := fieldOf[f.Field]; ok {
			f.Field = name
		}
		v.Errors = append(v.Errors, f)
	}
	beside := false
	for _, field := range []string{"tier", "type", "payload", "maxRetries", "delaySeconds", "callbackUrl",
		"idempotencyKey"} {
		beside = beside || len(v.Of(field)) > 0
	}
	switch {
	case beside:
	case e.Code == "UNKNOWN_TIER" || e.Code == "NOT_FOUND":
		v.Errors = []web.FieldError{{Field: "tier", Reason: "there is no such tier"}}
		if e.Code == "UNKNOWN_TIER" {
			v.Errors[0].Reason += "; " + e.Detail
		}
	case e.Code == "IDEMPOTENCY_MISMATCH":
		v.Errors = []web.FieldError{{Field: "idempotencyKey", Reason: "was used with another job"}}
	case e.Status == http.StatusUnauthorized:
		v.Trouble = "You need an API key. Your input stays on this page: log in in another tab, and submit again."
	case e.Status == http.StatusGatewayTimeout && e.JobID != "":
		v.Trouble = "The job may or may not have been accepted. Poll " + e.JobID + " before you submit it again."
	default:
		v.Trouble = e.Detail
	}
	if e.RetryAfter > 0 {
		s := strconv.Itoa(int(e.RetryAfter / time.Second))
		w.Header().Set("Retry-After", s)
		if v.Trouble != "" {
			v.Trouble += " Try again in " + s + " s."
		}
	}
	p.showSubmit(w, r, e.Status, v)
}

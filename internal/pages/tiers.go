package pages

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/tierq/tierq/client"
	"github.com/tierq/tierq/web"
)

const tiersPath = "/dashboard/tiers"

// getTiers serves the page with the plans.
func (p *Pages) getTiers(w http.ResponseWriter, r *http.Request) {
	var plans struct{ Items []client.Plan }
	if err := p.ask(r, http.MethodGet, "/admin/tiers", nil, &plans); err != nil {
		p.fail(w, r, err)
		return
	}
	v := web.TiersView{Frame: p.frame(r)}
	for i := range plans.Items {
		v.Plans = append(v.Plans, planOf(&plans.Items[i]))
	}
	p.show(w, r, http.StatusOK, func(w io.Writer) error { return p.o.Set.Tiers(w, v) })
}

// getTier serves the form that changes a plan.
func (p *Pages) getTier(w http.ResponseWriter, r *http.Request) {
	now, err := p.plan(r)
	if err == nil && !p.who(r).Admin {
		err = &apiError{Status: http.StatusForbidden, Code: "FORBIDDEN", Detail: "Plans are changed with an admin key."}
	}
	if err != nil {
		p.fail(w, r, err)
		return
	}
	v := web.TierView{Frame: p.frame(r), Plan: planOf(&now), Values: valuesOf(&now)}
	p.showTier(w, r, http.StatusOK, &v)
}

func (p *Pages) showTier(w http.ResponseWriter, r *http.Request, status int, v *web.TierView) {
	v.Here = r.URL.Path
	p.show(w, r, status, func(w io.Writer) error { return p.o.Set.Tier(w, *v) })
}

var tierName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,30}$`)

// plan reads the stored plan of the tier in the address.
func (p *Pages) plan(r *http.Request) (now client.Plan, err error) {
	tier := strings.TrimPrefix(r.URL.Path, tiersPath+"/")
	if !tierName.MatchString(tier) {
		return now, &apiError{Status: http.StatusNotFound, Code: "UNKNOWN_TIER", Detail: "There is no such tier."}
	}
	return now, p.ask(r, http.MethodGet, "/admin/tiers/"+tier, nil, &now)
}

// postTier shows what would change. When that is confirmed, it stores the plan in place of the version that was
// shown. If another version was stored meanwhile, it shows the typed values compared with that version.
func (p *Pages) postTier(w http.ResponseWriter, r *http.Request) {
	form, err := p.form(r)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	now, err := p.plan(r)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	v := web.TierView{Frame: p.frame(r), Values: typed(form), Typed: true}
	wanted := compare(&v, &now)
	version, bad := strconv.ParseInt(form.Get("version"), 10, 64)
	switch {
	case len(v.Errors) > 0:
		p.showTier(w, r, http.StatusBadRequest, &v)
	case bad != nil || version != now.Version:
		v.Trouble = otherVersion(now.Version)
		p.showTier(w, r, http.StatusPreconditionFailed, &v)
	case form.Get("confirmed") != "yes" || len(v.Changes) == 0:
		p.showTier(w, r, http.StatusOK, &v)
	default:
		p.storePlan(w, r, &v, &now, wanted)
	}
}

// storePlan stores a plan in place of the version before it. After any error the form keeps the typed values.
func (p *Pages) storePlan(w http.ResponseWriter, r *http.Request, v *web.TierView, before *client.Plan,
	wanted client.Plan) {
	wanted.Tier, wanted.Version = "", 0 // they are in the address and the ETag
	var stored client.Plan
	err := p.ask(with(r, "If-Match", before.ETag()), http.MethodPut, "/admin/tiers/"+string(before.Tier), wanted, &stored)
	if err == nil {
		p.back(w, tiersPath, nil, say("plan_stored", "", stored.Version), "")
		return
	}
	refusal, ok := errors.AsType[*apiError](err)
	if !ok || refusal.Status == http.StatusUnauthorized {
		p.fail(w, r, err)
		return
	}
	switch refusal.Status {
	case http.StatusBadRequest:
		v.Errors = planErrors(refusal)
	case http.StatusPreconditionFailed:
		now, err := p.plan(r)
		if err != nil {
			p.fail(w, r, err)
			return
		}
		compare(v, &now)
		v.Trouble = otherVersion(now.Version)
	default:
		v.Trouble = refusal.Detail
	}
	p.showTier(w, r, refusal.Status, v)
}

func otherVersion(now int64) string {
	return fmt.Sprintf("Another caller changed this plan in the meantime: it is version %d now, and your changes are not "+
		"stored. Compare both versions before you store yours.", now)
}

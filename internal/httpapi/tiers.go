package httpapi

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/tierq/tierq/internal/job"
)

// tiers serves GET /admin/tiers: the plans, best first.
func (a *api) tiers(c *gin.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	plans := a.Plans.All()
	body := struct {
		Items []planBody `json:"items"`
	}{make([]planBody, len(plans))}
	for i, p := range plans {
		body.Items[i] = planOf(p)
	}
	return write(c, http.StatusOK, &body)
}

// getTier serves GET /admin/tiers/{TIER}.
func (a *api) getTier(c *gin.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	plan, ok := a.Plans.Plan(tierNamed(c.Param("tier")))
	if !ok {
		return a.noTier()
	}
	tag := versionTag(plan.Version)
	c.Writer.Header()["Etag"], c.Writer.Header()["Cache-Control"] = []string{tag}, revalidate
	if matches(c.Request.Header["If-None-Match"], tag) {
		c.Writer.WriteHeader(http.StatusNotModified)
		c.Writer.WriteHeaderNow()
		return nil
	}
	return write(c, http.StatusOK, planOf(plan))
}

// putTier serves PUT /admin/tiers/{TIER}: it stores a whole plan. With If-Match it replaces only that version, with
// If-None-Match: * the tier must be new. Every process serves the new plan within about a second. Waiting jobs keep
// their places.
func (a *api) putTier(c *gin.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	tier := tierNamed(c.Param("tier"))
	if tier == "" {
		return invalid("tier", "a tier is named by capital letters, digits and _, at most 31")
	}
	version, err := versionAsked(c.Request.Header)
	if err != nil {
		return err
	}
	body, err := a.readBody(c)
	if err != nil {
		return err
	}
	if body == nil {
		return &problem{kind: invalidRequest, detail: "the body must be a plan"}
	}
	plan, err := decodePlan(body)
	if err != nil {
		return err
	}
	plan.Tier = tier
	was, there := a.Plans.Plan(tier)
	if version == -1 && len(c.Request.Header["If-Match"]) > 0 && !there {
		return &problem{kind: changed, detail: "there is no such tier; create it with If-None-Match: *"}
	}
	if err := plan.Check(); err != nil {
		return badPlan(err)
	}
	if plan.OwnSlots > 0 && !a.Strict {
		return invalid("ownSlots", "must be 0 here: this server's tiers overlap (TIERQ_PRIORITY_BASE)")
	}
	if plan.Lines.On() && !a.Strict {
		return invalid("lines", "must be off here: this server's tiers overlap (TIERQ_PRIORITY_BASE)")
	}
	stored, err := a.Plans.StorePlan(c.Request.Context(), plan, version)
	a.planChanged(c, was, there, plan, stored, err)
	if err != nil {
		return badPlan(inDoubt(err, "The plan may or may not have been stored: look at the tier in some seconds, before "+
			"you send it again."))
	}
	c.Writer.Header()["Etag"] = []string{versionTag(stored.Version)}
	return write(c, http.StatusOK, planOf(stored))
}

// planChanged writes to the log of changes a plan that was stored, or that a caller tried to store.
func (a *api) planChanged(c *gin.Context, was job.Plan, there bool, asked, stored job.Plan, err error) {
	var before any
	if there {
		before = planOf(was)
	}
	if err != nil {
		stored = asked
	}
	a.changed(c, "tier.put", string(asked.Tier), before, planOf(stored), err)
}

// badPlan turns job.ErrBadPlan into an INVALID_REQUEST that says why the plan cannot be served. Other errors are
// returned as they are.
func badPlan(err error) error {
	if !errors.Is(err, job.ErrBadPlan) {
		return err
	}
	return &problem{kind: invalidRequest, detail: told(err, job.ErrBadPlan)}
}

func versionTag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// versionAsked returns the version that a PUT must replace: -1 = any version, 0 = the tier must be new.
func versionAsked(h http.Header) (int64, error) {
	match, fresh := h["If-Match"], h["If-None-Match"]
	switch {
	case len(match) == 0 && len(fresh) == 0:
		return -1, nil
	case len(match) > 0 && len(fresh) > 0:
		return 0, invalid("If-Match", "excludes If-None-Match")
	case len(fresh) > 0:
		if len(fresh) == 1 && strings.TrimSpace(fresh[0]) == "*" {
			return 0, nil
		}
		return 0, invalid("If-None-Match", "must be *")
	}
	tag := strings.TrimSpace(match[0])
	if tag == "*" && len(match) == 1 {
		return -1, nil
	}
	if strings.HasPrefix(tag, "W/") { // If-Match compares strongly: no weak tag matches
		return 0, job.ErrChanged
	}
	inner, quoted := strings.CutPrefix(tag, `"`)
	inner, closed := strings.CutSuffix(inner, `"`)
	version, err := strconv.ParseInt(inner, 10, 64)
	if len(match) > 1 || !quoted || !closed || err != nil || version < 1 {
		return 0, invalid("If-Match", `must be one tag as it was in ETag, such as "3"`)
	}
	return version, nil
}

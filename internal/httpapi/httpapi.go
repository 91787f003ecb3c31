// Package httpapi is the HTTP edge: routes, JSON, one error table. A handler binds, makes one call, writes. Nothing else knows
// HTTP, and nothing here knows Redis or SQL.
package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tierq/tierq/internal/job"
)

// Submitter lets a job in. Its errors are job.ErrUnknownTier, job.ErrUnhealthy, job.ErrQueueFull and job.ErrFateUnknown (with the id). A
// refusal that has a method RetryIn() time.Duration says when to come again.
type Submitter interface {
	Submit(ctx context.Context, s job.Submission) (job.ID, error)
}

// Finder finds a job wherever it is kept: job.ErrNotFound, job.ErrUnavailable or job.ErrAmbiguous if it cannot.
type Finder interface {
	Find(ctx context.Context, id job.ID) (job.Job, error)
}

// Readiness says whether this process should get traffic.
type Readiness interface {
	Ready(ctx context.Context) Report
}

// Types knows the job types: Check returns nil, job.ErrUnknownType or an error that is job.ErrBadPayload.
type Types interface {
	Check(typ string, payload []byte) error
	Types() []string
}

// Plans knows the tiers.
type Plans interface {
	Plan(t job.Tier) (job.Plan, bool)
}

// Report is the answer of /readyz.
type Report struct {
	Ready  bool
	Status string // UP, DEGRADED (still ready) or OUT_OF_SERVICE
	Checks []Check
}

// Check is one part of a Report; users see it with ?verbose.
type Check struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Detail string `json:"detail,omitzero"`
}

// Deps are what the handlers need. All but Log and Now are required.
type Deps struct {
	Submit Submitter
	Find   Finder
	Ready  Readiness
	Types  Types
	Plans  Plans

	PayloadLimit int // bytes of one payload; 64 KiB if not positive
	Log          *slog.Logger
	Now          func() time.Time // the host's clock: it stamps answers, nothing more
}

type api struct {
	Deps
	bodyLimit int64
}

// bodyMargin is what a body may hold beside its payload.
const bodyMargin = 16 << 10

// NewHandler builds the routes.
func NewHandler(d Deps) http.Handler {
	if d.PayloadLimit <= 0 {
		d.PayloadLimit = 64 << 10
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	a := &api{Deps: d, bodyLimit: int64(d.PayloadLimit) + bodyMargin}

	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	_ = e.SetTrustedProxies(nil) // nil cannot be a wrong address
	e.RedirectTrailingSlash = false
	e.RedirectFixedPath = false
	e.HandleMethodNotAllowed = true
	// Routes match the path as it was sent: an encoded slash or letter is no alias of a plain one.
	e.UseEscapedPath = true
	e.UnescapePathValues = false

	e.Use(a.guard)
	e.NoRoute(a.handle(func(*gin.Context) error { return errNoRoute }))
	e.NoMethod(a.handle(func(*gin.Context) error { return errMethod }))
	e.POST("/:tier/submit", a.handle(a.submit))
	a.get(e, "/result/poll", a.poll)
	a.get(e, "/livez", a.livez)
	a.get(e, "/readyz", a.readyz)
	return e
}

// get serves a path for GET and HEAD; net/http drops the body of the latter.
func (a *api) get(e *gin.Engine, path string, f func(*gin.Context) error) {
	e.GET(path, a.handle(f))
	e.HEAD(path, a.handle(f))
}

// handle turns what a handler returns into an answer.
func (a *api) handle(f func(*gin.Context) error) gin.HandlerFunc {
	return func(c *gin.Context) {
		if err := f(c); err != nil {
			a.fail(c, err)
		}
	}
}

// stampFormat always has six digits, as the seed's samples do.
const stampFormat = "2006-01-02T15:04:05.000000Z"

func stamp(t time.Time) string { return t.UTC().Format(stampFormat) }

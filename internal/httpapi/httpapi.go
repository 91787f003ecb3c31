// Package httpapi serves tierq's HTTP API: routes, JSON, one error table. A handler reads its request, makes one
// call and writes the answer. No other room knows HTTP, and this room does not know Redis or SQL.
package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/go-json-experiment/json"
	"github.com/tierq/tierq/internal/job"
)

type api struct {
	Deps
	bodyLimit int64
	waiting   atomic.Int64 // long-polls and streams of jobs under way
	waits     waiters      // the same, by caller
	batches   atomic.Int64 // bytes of batches in memory
	held      atomic.Int64 // refusals that hold delays
	bodies    atomic.Int64 // bytes of other bodies in memory
	streams   atomic.Int64 // streams of all changes, open now
	requests  atomic.Int64 // under way; counted only if they are bounded
	profiling atomic.Bool  // a profile that measures for a time is being taken
}

// bodyMargin is the number of bytes that a body may have besides its payload.
const bodyMargin = 16 << 10

// NewHandler returns the handler of all routes.
func NewHandler(d Deps) http.Handler {
	d = d.withDefaults()
	return (&api{Deps: d, bodyLimit: int64(d.PayloadLimit) + bodyMargin}).handler()
}

func (a *api) handler() http.Handler {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	_ = e.SetTrustedProxies(nil) // nil cannot be a wrong address
	e.RedirectTrailingSlash = false
	e.RedirectFixedPath = false
	// Routes match the path as it was sent: an encoded slash or letter is not an alias of a plain one.
	e.UseEscapedPath = true
	e.UnescapePathValues = false

	e.Use(a.guard, leftover, a.crowd)
	known := &addresses{}
	for _, r := range slices.Concat(a.pageRoutes(), a.routes(), a.opsRoutes()) {
		if a.HealthOnly && !r.health {
			continue
		}
		e.Handle(r.method, r.path, a.handle(a.pass(r.permission, r.serve)))
		known.add(r.method, r.path)
	}
	for _, r := range a.Extra {
		e.Handle(r.Method, r.Path, a.handle(a.pass(r.Permission, serving(r.Handler))))
		known.add(r.Method, r.Path)
	}
	e.NoRoute(a.handle(a.lost(known)))
	return e
}

type route struct {
	method, path string
	permission   Permission
	serve        func(*gin.Context) error
	health       bool // about the process: served on every listener
}

// serving wraps a handler of another room.
func serving(h http.Handler) func(*gin.Context) error {
	return func(c *gin.Context) error {
		h.ServeHTTP(c.Writer, c.Request)
		return nil
	}
}

// routes returns all addresses of the contract, each with the permission that it requires. An address that only
// reads also answers HEAD: net/http drops the body.
func (a *api) routes() []route {
	var all []route
	add := func(method, path string, p Permission, serve func(*gin.Context) error) {
		health := path == "/livez" || path == "/readyz" || path == "/actuator/health" && a.Overview != nil
		all = append(all, route{method, path, p, serve, health})
	}
	get := func(path string, p Permission, serve func(*gin.Context) error) {
		add(http.MethodGet, path, p, serve)
		add(http.MethodHead, path, p, serve)
	}
	post := func(path string, p Permission, serve func(*gin.Context) error) { add(http.MethodPost, path, p, serve) }

	post("/:tier/submit", ForTierSubmits, a.submit)
	post("/:tier/submit/batch", ForTierSubmits, a.submitBatch)
	get("/result/poll", ForOwners, a.poll)

	post("/jobs", ForSubmits, a.postJob)
	post("/api/jobs", ForSubmits, a.postAPIJob)
	get("/jobs/dead", ForLists, within(operation, a.deadPage))
	get("/jobs/:id", ForOwners, within(operation, a.getJob))
	get("/api/jobs/:id", ForOwners, within(operation, a.getJob))
	get("/jobs/:id/artifact", ForOwners, a.artifact)
	get("/api/jobs/:id/why", ForOwners, within(operation, a.why))
	get("/api/jobs/:id/logs", ForOwners, a.logs)
	add(http.MethodGet, "/api/jobs/:id/events", ForOwners, a.jobEvents)
	add(http.MethodGet, "/api/events", ForOperators, a.allEvents)

	post("/api/batches", ForSubmits, within(operation, a.createBatch))
	get("/api/batches", ForLists, within(operation, a.batchesPage))
	get("/api/batches/:id", ForLists, within(operation, a.getBatch))
	get("/api/batches/:id/members", ForLists, within(operation, a.batchMembers))
	add(http.MethodGet, "/api/batches/:id/events", ForLists, a.batchEvents)
	post("/api/batches/:id/seal", ForSubmits, within(operation, a.sealBatch))
	post("/api/batches/:id/cancel", ForSubmits, within(bulk, a.cancelBatch))

	post("/jobs/:id/retry", ForOwnersToAct, within(operation, a.requeue))
	post("/admin/jobs/:id/resubmit", ForAdmins, within(operation, a.requeue))
	post("/admin/jobs/:id/kill", ForAdmins, within(operation, a.kill))
	post("/admin/jobs/:id/hasten", ForAdmins, within(operation, a.hasten))
	add(http.MethodDelete, "/admin/jobs/:id", ForAdmins, within(operation, a.cancel))
	add(http.MethodDelete, "/api/jobs/:id", ForOwnersToAct, within(operation, a.cancel))
	post("/api/jobs/:id/cancel", ForOwnersToAct, within(operation, a.cancel))

	get("/admin/jobs", ForOperators, within(operation, a.list))
	get("/api/jobs", ForLists, within(operation, a.list))
	get("/admin/dead", ForOperators, within(operation, a.dead))
	add(http.MethodGet, "/admin/dead/export", ForOperators, a.deadExport)
	post("/admin/dead/requeue", ForAdmins, within(bulk, a.requeueDead))
	post("/admin/dead/:id/dismiss", ForAdmins, within(operation, a.dismiss))
	get("/admin/tiers", ForOperators, within(operation, a.tiers))
	get("/admin/tiers/:tier", ForOperators, within(operation, a.getTier))
	add(http.MethodPut, "/admin/tiers/:tier", ForAdmins, within(operation, a.putTier))

	get("/admin/queues", ForOperators, within(operation, a.queues))
	get("/admin/queues/:name", ForOperators, within(operation, a.getQueue))
	add(http.MethodPut, "/admin/queues/:name", ForAdmins, within(operation, a.putQueue))
	add(http.MethodDelete, "/admin/queues/:name", ForAdmins, within(operation, a.deleteQueue))
	post("/admin/queues/:name/pause", ForAdmins, within(operation, a.pauseQueue))
	post("/admin/queues/:name/resume", ForAdmins, within(operation, a.resumeQueue))
	post("/admin/queues/:name/purge", ForAdmins, within(bulk, a.purgeQueue))

	get("/admin/lines", ForOperators, within(operation, a.lines))
	add(http.MethodPut, "/admin/lines", ForAdmins, within(operation, a.putLine))
	get("/admin/schedules", ForOperators, within(operation, a.schedules))
	get("/admin/schedules/:name", ForOperators, within(operation, a.getSchedule))
	get("/admin/schedules/:name/next", ForOperators, within(operation, a.nextOfSchedule))
	add(http.MethodPut, "/admin/schedules/:name", ForAdmins, within(operation, a.putSchedule))
	add(http.MethodDelete, "/admin/schedules/:name", ForAdmins, within(operation, a.deleteSchedule))
	post("/admin/schedules/:name/run", ForAdmins, within(operation, a.runSchedule))
	post("/admin/schedules/:name/pause", ForAdmins, within(operation, a.pauseSchedule))
	post("/admin/schedules/:name/resume", ForAdmins, within(operation, a.resumeSchedule))
	get("/admin/paused", ForOperators, within(operation, a.paused))
	add(http.MethodPut, "/admin/paused/:scope", ForAdmins, within(operation, a.putPaused))
	add(http.MethodDelete, "/admin/paused/:scope", ForAdmins, within(operation, a.deletePaused))

	post("/api/worker/claim", ForWorkers, a.workerClaim)
	post("/api/worker/heartbeat", ForWorkers, within(operation, a.workerHeartbeat))
	post("/api/worker/log", ForWorkers, within(operation, a.workerLog))
	post("/api/worker/complete", ForWorkers, within(operation, a.workerEnd(&completeShape)))
	post("/api/worker/fail", ForWorkers, within(operation, a.workerEnd(&failShape)))
	post("/api/worker/release", ForWorkers, within(operation, a.workerEnd(&releaseShape)))
	post("/api/worker/report", ForWorkers, within(operation, a.workerReport))

	post("/api/worker/inputs", ForWorkers, within(operation, a.workerInputs))

	post("/api/flows", ForSubmits, within(operation, a.submitFlow))
	get("/api/flows", ForLists, within(operation, a.flows))
	get("/api/flows/:id", ForOwners, within(operation, a.getFlow))
	post("/api/flows/:id/jobs", ForWorkersToSubmit, within(operation, a.addToFlow))
	post("/api/flows/:id/cancel", ForOwnersToAct, within(bulk, a.cancelFlow))

	get("/admin/workers", ForOperators, within(operation, a.workers))
	post("/admin/workers/:name/quiet", ForAdmins, within(operation, a.askWorker("worker.quiet", job.WorkerQuiet)))
	post("/admin/workers/:name/resume", ForAdmins, within(operation, a.askWorker("worker.resume", job.WorkerRuns)))
	post("/admin/workers/:name/terminate", ForAdmins,
		within(operation, a.askWorker("worker.terminate", job.WorkerTerminates)))

	get("/admin/consistency", ForOperators, within(operation, a.lastAudit))
	post("/admin/consistency", ForAdmins, within(bulk, a.runAudit))

	get("/admin/keys", ForOperators, within(operation, a.keys))
	post("/admin/keys", ForAdmins, within(operation, a.createKey))
	post("/admin/keys/:id/rotate", ForAdmins, within(operation, a.rotateKey))
	add(http.MethodDelete, "/admin/keys/:id", ForAdmins, within(operation, a.revokeKey))
	post("/admin/keys/:id/gateway", ForAdmins, within(operation, a.keyGateway))
	get("/admin/audit", ForOperators, within(operation, a.changesPage))

	get("/api/stats", ForOperators, within(operation, a.stats))
	get("/api/stats/series", ForOperators, within(operation, seriesRoute(a.Charts, a.Plans, a.Now)))
	get("/api/me", Uncounted, a.me)
	post("/api/me/gateway", ForKeys, within(operation, a.ownGateway))
	get("/actuator/health", Uncounted, a.health)
	get("/livez", Uncounted, a.livez)
	get("/readyz", Uncounted, a.readyz)
	return all
}

// Routes lists every address of the contract, without handlers, for the test that compares them with openapi.yaml.
func Routes() []Route {
	var all []Route
	for _, r := range new(api).routes() {
		all = append(all, Route{Method: r.method, Path: r.path, Permission: r.permission})
	}
	return all
}

// handle writes the error that f returns as the answer.
func (a *api) handle(f func(*gin.Context) error) gin.HandlerFunc {
	return func(c *gin.Context) {
		if err := f(c); err != nil {
			a.fail(c, err)
		}
	}
}

// The time that the stores may take for one request.
const (
	operation = 10 * time.Second
	bulk      = 60 * time.Second
)

// within gives a handler's calls a deadline. If f fails with context.DeadlineExceeded because of it, the answer is
// a 503.
func within(limit time.Duration, f func(*gin.Context) error) func(*gin.Context) error {
	return func(c *gin.Context) error {
		if limit > operation {
			extend(c, limit)
		}
		whole := c.Request
		ctx, cancel := context.WithTimeout(whole.Context(), limit)
		defer cancel()
		c.Request = whole.WithContext(ctx)
		err := f(c)
		c.Request = whole
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil && whole.Context().Err() == nil {
			return &problem{kind: systemUnhealthy, detail: "the stores did not answer in time"}
		}
		return err
	}
}

// extend gives one request more time for writing its answer than the server's limit. It has no effect if the
// connection does not support write deadlines.
func extend(c *gin.Context, d time.Duration) {
	_ = http.NewResponseController(c.Writer).SetWriteDeadline(time.Now().Add(d + writeMargin))
}

// writeMargin is the time for writing an answer after a wait.
const writeMargin = 10 * time.Second

// write answers with a JSON body.
func write(c *gin.Context, status int, body any) error {
	text, err := encode(body)
	if err != nil {
		return err
	}
	writeText(c, status, text)
	return nil
}

func encode(body any) ([]byte, error) {
	text, err := json.Marshal(body, lenient)
	if err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return text, nil
}

func writeText(c *gin.Context, status int, text []byte) {
	c.Writer.Header()["Content-Type"] = jsonType
	c.Writer.WriteHeader(status)
	_, _ = c.Writer.Write(text) // if this fails, the client has left, and asks again
}

// stampFormat always has six digits, as the seed's samples do.
const stampFormat = "2006-01-02T15:04:05.000000Z"

func stamp(t time.Time) string { return t.UTC().Format(stampFormat) }

package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"
)

// Health is the answer of /actuator/health. A status is UP, DEGRADED, DOWN or OUT_OF_SERVICE; the last two answer 503.
type Health struct {
	Status     string     `json:"status"`
	Components Components `json:"components"`
}

// Components are the parts of a Health.
type Components struct {
	Redis Component `json:"redis"`
	DB    Component `json:"db"`
	Gate  Component `json:"gate"`
	Job   JobHealth `json:"job"`
}

// Component is the state of one part. Detail is shown to users.
type Component struct {
	Status string `json:"status"`
	Detail string `json:"detail,omitzero"`
}

// JobHealth is the state of the queue and of the worker pool.
type JobHealth struct {
	Status  string     `json:"status"`
	Details JobDetails `json:"details"`
}

// JobDetails has the four numbers of the first seed: ready jobs and dead letters of the system, slots of this
// process.
type JobDetails struct {
	PendingJobs   int64 `json:"pendingJobs"`
	DeadJobs      int64 `json:"deadJobs"`
	ActiveThreads int   `json:"activeThreads"`
	PoolSize      int   `json:"poolSize"`
}

// livez serves GET /livez: the process answers. It calls no store.
func (a *api) livez(c *gin.Context) error {
	writeText(c, http.StatusOK, []byte(`{"status":"UP"}`))
	return nil
}

type readyBody struct {
	Status    string  `json:"status"`
	Timestamp string  `json:"timestamp"`
	Checks    []Check `json:"checks,omitempty"`
}

// Report is the answer of /readyz.
type Report struct {
	Ready  bool
	Status string // UP, DEGRADED (still ready) or OUT_OF_SERVICE
	Checks []Check
}

// Check is the state of one part in a Report. Users see it with ?verbose.
type Check struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Detail string `json:"detail,omitzero"`
}

// readyz serves GET /readyz. With ?verbose it lists the parts too; if there are keys, only for operators.
func (a *api) readyz(c *gin.Context) error {
	report := a.Ready.Ready(c.Request.Context())
	body := readyBody{Status: report.Status, Timestamp: stamp(a.Now())}
	if _, verbose := c.GetQuery("verbose"); verbose && a.insider(c.Request) {
		body.Checks = report.Checks
	}
	return write(c, served(report.Ready), &body)
}

// health serves GET /actuator/health. If there are keys, only operators see its parts.
func (a *api) health(c *gin.Context) error {
	health := a.Overview.Health(c.Request.Context())
	status := served(health.Status != "DOWN" && health.Status != "OUT_OF_SERVICE")
	if !a.insider(c.Request) {
		return write(c, status, &struct {
			Status string `json:"status"`
		}{health.Status})
	}
	return write(c, status, &health)
}

func served(yes bool) int {
	if yes {
		return http.StatusOK
	}
	return http.StatusServiceUnavailable
}

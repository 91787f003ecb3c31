package httpapi

import (
	"net/http"
	"slices"

	"github.com/gin-gonic/gin"

	"github.com/tierq/tierq/internal/job"
)

// workers serves GET /admin/workers.
func (a *api) workers(c *gin.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	return write(c, http.StatusOK, &struct {
		Items []job.WorkerInfo `json:"items"`
	}{append([]job.WorkerInfo{}, a.Workers.Workers()...)})
}

// askWorker serves POST /admin/workers/{name}/quiet, resume and terminate.
func (a *api) askWorker(action string, state job.WorkerState) func(*gin.Context) error {
	return func(c *gin.Context) error {
		if err := noQuery(c); err != nil {
			return err
		}
		name := c.Param("name")
		all := a.Workers.Workers()
		at := slices.IndexFunc(all, func(w job.WorkerInfo) bool { return w.Name == name })
		if at < 0 {
			return &problem{kind: notFound, detail: "no worker of this name was heard of lately"}
		}
		before := all[at].State
		err := a.Workers.AskWorker(c.Request.Context(), name, state)
		a.changed(c, action, name, before, state, err)
		if err != nil {
			return inDoubt(err, "The worker may or may not be told: list the workers in some seconds, or send it again.")
		}
		all[at].State = state
		return write(c, http.StatusOK, &all[at])
	}
}

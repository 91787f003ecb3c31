package httpapi

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tierq/tierq/internal/job"
)

// Page is an address for browsers. Path is in gin's syntax (:name). A GET answers HEAD as well. Everybody may open
// a page: it reads its data from this API on its caller's behalf. Its handler sets Content-Security-Policy and
// Cache-Control itself.
type Page struct {
	Method, Path string
	Handler      http.Handler
}

// streamPath is the address of the dashboard's stream.
const streamPath = "/dashboard/stream"

// pageRoutes returns the addresses for browsers, which the contract does not cover.
func (a *api) pageRoutes() []route {
	var all []route
	add := func(method string, p Page) {
		if !slices.ContainsFunc(all, func(r route) bool { return r.method == method && r.path == p.Path }) {
			all = append(all, route{method: method, path: p.Path, permission: ForEverybody, serve: serving(p.Handler)})
		}
	}
	for _, p := range a.Pages {
		add(p.Method, p)
	}
	for _, p := range a.Pages {
		if p.Method == http.MethodGet {
			add(http.MethodHead, p)
		}
	}
	if a.Live != nil {
		all = append(all, route{method: http.MethodGet, path: streamPath, permission: ForOperators, serve: a.live})
	}
	return all
}

// lost answers requests that no route took. A browser that asks for a page gets a page.
func (a *api) lost(known *addresses) func(*gin.Context) error {
	return func(c *gin.Context) error {
		err := known.refuse(c)
		reads := c.Request.Method == http.MethodGet || c.Request.Method == http.MethodHead
		if a.Lost == nil || !errors.Is(err, errNoRoute) || !reads ||
			!strings.Contains(c.Request.Header.Get("Accept"), "text/html") {
			return err
		}
		if err := a.countAddress(c.Request); err != nil {
			return err
		}
		a.Lost.ServeHTTP(c.Writer, c.Request)
		c.Writer.WriteHeaderNow() // without it, gin takes the request for unanswered
		return nil
	}
}

// live serves GET /dashboard/stream. It counts among the streams of all changes, and ends, as they do, when its caller
// may not listen any more.
func (a *api) live(c *gin.Context) error {
	leave, err := a.enterStream()
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithCancel(c.Request.Context())
	r, caller := c.Request.WithContext(ctx), *callerOf(c)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	group.Go(func() { a.watch(r, &caller, cancel) })
	a.Live.ServeHTTP(c.Writer, r)
	return nil
}

// watch ends a stream once its caller would not be let in any more as he was. It checks every pingEvery.
func (a *api) watch(r *http.Request, caller *job.Caller, end func()) {
	ticker := time.NewTicker(pingEvery)
	defer ticker.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-ticker.C:
		}
		if !a.still(r, caller) {
			end()
			return
		}
	}
}

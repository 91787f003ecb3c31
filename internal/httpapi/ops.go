package httpapi

import (
	"net/http"
	"net/http/pprof"

	"github.com/gin-gonic/gin"
)

// opsRoutes returns the addresses for operators of the server: the metrics, and Go's profiles. Either the API
// serves them or a listener of their own.
func (a *api) opsRoutes() []route {
	if a.Metrics == nil {
		return nil
	}
	return []route{
		{http.MethodGet, "/metrics", ForOperators, serving(a.Metrics), true},
		{http.MethodGet, profilePath, ForAdmins, fromOwnPage(a.profiles), true},
		{http.MethodGet, profilePath + ":name", ForAdmins, fromOwnPage(a.profile), true},
	}
}

// fromOwnPage refuses requests that a page of another site makes a browser send, also reading ones: a profile costs
// this process time, and a listener on loopback needs no key.
func fromOwnPage(f func(*gin.Context) error) func(*gin.Context) error {
	return func(c *gin.Context) error {
		if !sameOrigin(c.Request) {
			return &problem{kind: forbidden, detail: "a page of another site may not do this"}
		}
		return f(c)
	}
}

const profilePath = "/debug/pprof/"

// profiles serves GET /debug/pprof/: the list of the profiles.
func (a *api) profiles(c *gin.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	pprof.Index(c.Writer, c.Request)
	return nil
}

// profileQuery holds the parameters of a profile. The handlers of net/http/pprof read them again.
type profileQuery struct{ seconds int }

// profileMost bounds the seconds for which a profile is taken.
const profileMost = 120

var profileParams = params[profileQuery]{
	"seconds": func(q *profileQuery, value string) (err error) {
		q.seconds, err = whole(value, 1, profileMost)
		return err
	},
	"debug": func(_ *profileQuery, value string) error {
		_, err := whole(value, 0, 2)
		return err
	},
	"gc": func(_ *profileQuery, value string) error {
		_, err := whole(value, 0, 1)
		return err
	},
}

// profile serves GET /debug/pprof/{name}. Profiles that are taken for some seconds are taken one at a time;
// net/http/pprof extends the write deadlines of their answers. The process's command line is not served, because it
// is not a profile.
func (a *api) profile(c *gin.Context) error {
	var q profileQuery
	if err := profileParams.read(c.Request.URL.RawQuery, &q); err != nil {
		return err
	}
	name := c.Param("name")
	serve := pprof.Handler(name).ServeHTTP
	switch name {
	case "profile":
		serve = pprof.Profile
	case "trace":
		serve = pprof.Trace
	case "allocs", "block", "goroutine", "heap", "mutex", "threadcreate":
		if q.seconds == 0 {
			serve(c.Writer, c.Request)
			return nil
		}
	default:
		return errNoRoute
	}
	if !a.profiling.CompareAndSwap(false, true) {
		return &problem{kind: systemUnhealthy, detail: "another profile is being taken"}
	}
	defer a.profiling.Store(false)
	serve(c.Writer, c.Request)
	return nil
}

package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/gin-gonic/gin"

	"github.com/tierq/tierq/internal/job"
)

// visit holds the caller of one request, where callerOf finds him, and the request's buffers. A pool reuses visits:
// no code may keep a pointer to a caller after his request has ended.
type visit struct {
	caller job.Caller
	held   int64 // bytes of its body in bodyMemory
	asked  asked
	answer []byte // buffer for the answer
	keys   map[any]any
}

const (
	callerKey = "caller"
	visitKey  = "visit"
)

var visits = sync.Pool{New: func() any {
	v := &visit{}
	v.keys = map[any]any{callerKey: &v.caller, visitKey: v}
	return v
}}

// visitOf returns the visit of a request; an empty one if the address does not authenticate its caller.
func visitOf(c *gin.Context) *visit {
	if v, ok := c.Keys[visitKey].(*visit); ok {
		return v
	}
	return &visit{}
}

// callerOf returns the caller of a request; a stranger if the address does not authenticate its caller.
func callerOf(c *gin.Context) *job.Caller {
	if caller, ok := c.Keys[callerKey].(*job.Caller); ok {
		return caller
	}
	return &job.Caller{}
}

// pass calls a handler only for callers who may use its address, and charges the request to their rate.
func (a *api) pass(p Permission, f func(*gin.Context) error) func(*gin.Context) error {
	return func(c *gin.Context) error {
		if err := a.origin(c.Request); err != nil {
			return err
		}
		switch p {
		case Uncounted:
			return f(c)
		case ForEverybody:
			if err := a.countAddress(c.Request); err != nil {
				return err
			}
			return f(c)
		}
		v := visits.Get().(*visit)
		defer func() {
			if v.held != 0 {
				a.bodies.Add(-v.held)
			}
			c.Keys, v.caller, v.held, v.asked = nil, job.Caller{}, 0, asked{}
			visits.Put(v)
		}()
		var err error
		if v.caller, err = a.caller(c.Request); err != nil {
			return err
		}
		c.Keys = v.keys
		if !p.allows(&v.caller) {
			return refusal(&v.caller, "a key with the role "+string(v.caller.Key.Role)+" may not do this")
		}
		if err := a.spend(c, 1); err != nil {
			return err
		}
		return f(c)
	}
}

// countAddress charges a request to the rate of its address. The error is a *job.RateError if the address sends too
// many.
func (a *api) countAddress(r *http.Request) error {
	if a.Doors == nil {
		return nil
	}
	return a.Doors.CountAddress(r.Context(), a.address(r))
}

// open reports whether there are no keys, so that every caller may do everything.
func (a *api) open() bool { return a.Doors == nil || a.Doors.Open() }

// caller returns the caller of a request. A key is read from the header Authorization only, a session from a
// browser's cookie only.
func (a *api) caller(r *http.Request) (job.Caller, error) {
	from := a.address(r)
	if a.Doors == nil {
		return job.Caller{Open: true, Address: from}, nil
	}
	authorization, session := a.shown(r)
	return a.Doors.Enter(r.Context(), authorization, session, from)
}

// still reports whether a request's caller would be let in again as he was. An answer may go on for hours, and
// meanwhile his key may be revoked, or an open server may get keys. On any error still returns false.
func (a *api) still(r *http.Request, was *job.Caller) bool {
	now, err := a.caller(r)
	return err == nil && now.Open == was.Open && now.Key.ID == was.Key.ID && now.Key.Role == was.Key.Role
}

// insider reports whether a caller may see more of the server's health than one word. A caller with a wrong key
// sees the word instead of an error, so that no monitor takes the process for dead.
func (a *api) insider(r *http.Request) bool {
	if a.open() {
		return !a.OneWord
	}
	if authorization, session := a.shown(r); len(authorization) == 0 && session == "" {
		return false
	}
	caller, err := a.caller(r)
	return err == nil && caller.Operator()
}

// crossOrigin refuses requests that a browser sends for a page of another site, except reading ones.
var crossOrigin http.CrossOriginProtection

// origin refuses requests that a page of another site makes a browser send. While there are keys, reading requests
// pass: no answer lets another site's page read it, and the cookie of such a request does not count, see shown. An
// open server also refuses other host names than localhost, and requests through a proxy, unless Insecure is set: a
// site's name may lead to this machine, and to the browser that site's pages are then of the same origin.
func (a *api) origin(r *http.Request) error {
	if !a.Insecure && (!loopbackName(r.Host) || forwarded(r.Header)) && a.open() {
		return &problem{kind: forbidden,
			detail: "a server without API keys answers only requests that name localhost in the header Host and come through " +
				"no proxy: make a key, or set TIERQ_INSECURE=on"}
	}
	if crossOrigin.Check(r) != nil {
		return &problem{kind: forbidden, detail: "a page of another site may not do this"}
	}
	return nil
}

// proxyHeaders are headers that proxies and content networks add to a request that they pass on. All headers that
// begin with X-Forwarded- count as well.
var proxyHeaders = []string{
	"Cdn-Loop", "Cf-Connecting-Ip", "Cf-Ray", "Cloudfront-Viewer-Address", "Fastly-Client-Ip", "Fly-Client-Ip",
	"Forwarded",
	"Proxy-Connection", "True-Client-Ip", "Via", "X-Appengine-User-Ip", "X-Azure-Clientip", "X-Client-Ip",
	"X-Cluster-Client-Ip", "X-Envoy-External-Address", "X-Original-Forwarded-For", "X-Original-Host", "X-Proxyuser-Ip",
	"X-Real-Ip",
}

// forwarded reports whether a proxy's header says that a request was passed on. Behind a proxy on this machine,
// every client seems to come from loopback.
func forwarded(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, "X-Forwarded-") || slices.Contains(proxyHeaders, name) {
			return true
		}
	}
	return false
}

// loopbackName reports whether a Host, with a port or without, can only mean this machine. A name that has to be
// resolved may mean any machine.
func loopbackName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if inner, found := strings.CutPrefix(host, "["); found {
		host = strings.TrimSuffix(inner, "]")
	}
	if name := strings.ToLower(host); name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// find returns a job to its caller. Another caller's job gets the same error as a job that does not exist.
func (a *api) find(c *gin.Context, id job.ID) (job.Job, error) {
	j, err := a.Jobs.Find(c.Request.Context(), id)
	if err == nil && !callerOf(c).Sees(j.Owner) {
		return job.Job{}, job.ErrNotFound
	}
	return j, err
}

// known returns job.ErrNotFound if the job is not the caller's, before anything is done to the job. For operators,
// who see all jobs, it returns nil without a read.
func (a *api) known(c *gin.Context, id job.ID) error {
	if callerOf(c).Operator() {
		return nil
	}
	_, err := a.find(c, id)
	return err
}

// own limits a list to the caller's jobs, unless the caller is an operator.
func own(c *gin.Context, f *job.Filter) {
	if caller := callerOf(c); !caller.Operator() {
		owner := caller.Owner()
		f.Owner = &owner
	}
}

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

// visit is one request's caller, where callerOf finds him. Visits are kept for the requests that come: a caller is not
// to be held on to when his request is over.
type visit struct {
	caller job.Caller
	held   int64 // bytes of its body in bodyMemory
	asked  asked
	answer []byte // to write it in
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

// visitOf is the visit of a request that may be one of a caller's.
func visitOf(c *gin.Context) *visit {
	if v, ok := c.Keys[visitKey].(*visit); ok {
		return v
	}
	return &visit{}
}

// callerOf is who makes a request. Where nobody was asked, it is a stranger.
func callerOf(c *gin.Context) *job.Caller {
	if caller, ok := c.Keys[callerKey].(*job.Caller); ok {
		return caller
	}
	return &job.Caller{}
}

// pass lets those to a handler who may use its address, and counts what they ask against their rate.
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
			return refusal(&v.caller, "a key with the role "+string(v.caller.Key.Role)+" does not open this")
		}
		if err := a.spend(c, 1); err != nil {
			return err
		}
		return f(c)
	}
}

// countAddress takes a request from the rate of its address: a *job.RateError where the address asks too much.
func (a *api) countAddress(r *http.Request) error {
	if a.Doors == nil {
		return nil
	}
	return a.Doors.CountAddress(r.Context(), a.address(r))
}

// open says whether there are no keys, so that everybody may do everything.
func (a *api) open() bool { return a.Doors == nil || a.Doors.Open() }

// caller finds out who makes a request. A key is taken from the header Authorization, a session from a browser's
// cookie, and neither from anywhere else.
func (a *api) caller(r *http.Request) (job.Caller, error) {
	from := a.address(r)
	if a.Doors == nil {
		return job.Caller{Open: true, Address: from}, nil
	}
	authorization, session := a.shown(r)
	return a.Doors.Enter(r.Context(), authorization, session, from)
}

// still says whether a request's caller would be let in as he was: an answer that goes on for hours outlasts keys, and
// servers that were open. No error keeps him in.
func (a *api) still(r *http.Request, was *job.Caller) bool {
	now, err := a.caller(r)
	return err == nil && now.Open == was.Open && now.Key.ID == was.Key.ID && now.Key.Role == was.Key.Role
}

// insider says whether whoever asks how the process is may learn more than one word. A wrong key is no reason to call a
// process dead: its holder learns the word.
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

// crossOrigin refuses what a browser sends for a page of another site, but for reading.
var crossOrigin http.CrossOriginProtection

// origin refuses what another site's page lets a browser send. Reading needs no such refusal while there are keys, for
// no answer lets another site's page read it, and a cookie that comes from there is no session, see shown. An open
// server must also beware of a site whose name leads to this machine: its pages are of the same origin to the browser.
func (a *api) origin(r *http.Request) error {
	if !a.Insecure && (!loopbackName(r.Host) || forwarded(r.Header)) && a.open() {
		return &problem{kind: forbidden,
			detail: "an address that asks for no API key answers to localhost only, in the header Host, and to nobody's " +
				"proxy: make a key, or set TIERQ_INSECURE=on"}
	}
	if crossOrigin.Check(r) != nil {
		return &problem{kind: forbidden, detail: "a page of another site may not do this"}
	}
	return nil
}

// proxyHeaders are what proxies and content networks add to a request that they pass on. What begins with X-Forwarded-
// is theirs as well.
var proxyHeaders = []string{
	"Cdn-Loop", "Cf-Connecting-Ip", "Cf-Ray", "Cloudfront-Viewer-Address", "Fastly-Client-Ip", "Fly-Client-Ip",
	"Forwarded",
	"Proxy-Connection", "True-Client-Ip", "Via", "X-Appengine-User-Ip", "X-Azure-Clientip", "X-Client-Ip",
	"X-Cluster-Client-Ip", "X-Envoy-External-Address", "X-Original-Forwarded-For", "X-Original-Host", "X-Proxyuser-Ip",
	"X-Real-Ip",
}

// forwarded says whether a proxy passed a request on and says so. One on this machine makes loopback of the whole
// world.
func forwarded(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, "X-Forwarded-") || slices.Contains(proxyHeaders, name) {
			return true
		}
	}
	return false
}

// loopbackName says whether a Host, with a port or without, can mean nothing but this machine: a name that only the
// resolver knows may mean anything.
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

// find looks a job up for its caller: somebody else's is not there, in the very words of one that nobody has.
func (a *api) find(c *gin.Context, id job.ID) (job.Job, error) {
	j, err := a.Jobs.Find(c.Request.Context(), id)
	if err == nil && !callerOf(c).Sees(j.Owner) {
		return job.Job{}, job.ErrNotFound
	}
	return j, err
}

// known refuses a job that is not its caller's, before anything is done about it: job.ErrNotFound. Operators know all
// jobs, and are not asked.
func (a *api) known(c *gin.Context, id job.ID) error {
	if callerOf(c).Operator() {
		return nil
	}
	_, err := a.find(c, id)
	return err
}

// own narrows a list to its caller's jobs, unless he is an operator.
func own(c *gin.Context, f *job.Filter) {
	if caller := callerOf(c); !caller.Operator() {
		owner := caller.Owner()
		f.Owner = &owner
	}
}

package attack

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// outgoing returns the attacks with URLs that the server is asked to call.
func outgoing() []Attack {
	urls := func(id, what string, urls ...string) Attack {
		return Attack{ID: id, What: what, try: func(ctx context.Context, t *Target, x *trial) { lure(ctx, t, x, urls...) }}
	}
	return []Attack{
		urls("A32", "URLs of this machine", "http://127.0.0.1<:port>/", "http://127.0.0.1:80/", "https://127.0.0.1:443/",
			"http://127.255.255.254<:port>/", "http://0.0.0.0<:port>/", "http://10.0.0.1<:port>/", "http://192.168.0.1<:port>/",
			"http://172.16.0.1<:port>/", "http://100.64.0.1<:port>/"),
		urls("A33", "decimal, octal, hexadecimal and short addresses", "http://2130706433<:port>/", "http://0177.1<:port>/",
			"http://0177.0.0.1<:port>/", "http://0x7f.1<:port>/", "http://0x7f000001<:port>/", "http://127.1<:port>/",
			"http://127.0.1<:port>/",
			"http://0<:port>/", "http://127.0.0.1.<:port>/"),
		urls("A34", "IPv6, and IPv4 inside of it", "http://[::1]<:port>/", "http://[::]<:port>/",
			"http://[::ffff:127.0.0.1]<:port>/",
			"http://[::ffff:7f00:1]<:port>/", "http://[64:ff9b::7f00:1]<:port>/", "http://[fe80::1%25lo]<:port>/",
			"http://[fc00::1]<:port>/",
			"http://[2002:7f00:1::]<:port>/", "http://[::127.0.0.1]<:port>/"),
		urls("A35", "metadata services", "http://169.254.169.254/latest/meta-data/", "http://metadata.google.internal/",
			"http://[fd00:ec2::254]/", "http://100.100.100.200/"),
		urls("A36", "names that lead to this machine", "http://localhost<:port>/", "http://localhost.localdomain<:port>/",
			"http://a.localhost<:port>/", "http://<hostname><:port>/"),
		urls("A38", "other schemes", "gopher://127.0.0.1:6379/_FLUSHALL", "file:///etc/passwd", "unix:///run/docker.sock",
			"data:text/plain,x", "ftp://127.0.0.1/", "javascript:alert(1)", "//127.0.0.1/", "HTTP:127.0.0.1"),
		urls("A39", "user names, fragments, blanks, other alphabets in the host", "http://good.example@127.0.0.1<:port>/",
			"http://127.0.0.1<:port>#@good.example/", "http://127.0.0.1\t<:port>/", "http://127.0.0.1<:port>\n/",
			"http://ⓛocalhost<:port>/",
			"http://127。0。0。1<:port>/", "http://good.example\\@127.0.0.1<:port>/", "http://%31%32%37.0.0.1<:port>/"),
		urls("A40", "the server's own port, and its stores'", "http://<target>/admin/keys", "http://127.0.0.1:6379/",
			"http://127.0.0.1:3306/", "http://good.example:6379/", "http://<listener>/"),
		{ID: "A41", What: "HTTP_PROXY in the server's environment", try: proxied},
	}
}

// ear is a listener that counts connections; none should arrive.
type ear struct {
	net.Listener
	heard atomic.Int64
}

// listen listens on addr: "127.0.0.1:0", or ":0" for all addresses of this machine.
func listen(ctx context.Context, addr string) (*ear, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	e := &ear{Listener: l}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			e.heard.Add(1)
			_ = conn.Close()
		}
	}()
	return e, nil
}

// lure asks for calls to URLs: as webhook, as callback and as an endpoint of a document. The server has to refuse
// each at once, or give up without a connection. <:port> in a URL is replaced by nothing, and then by the port of
// a listener on every address of this machine, which would notice a call. A server started by Own has to refuse
// all of them at once, except names that only a resolver knows.
func lure(ctx context.Context, t *Target, x *trial, urls ...string) {
	e, err := listen(ctx, ":0")
	if err != nil {
		x.fail("listen: %v", err)
		return
	}
	defer e.Close()
	host, _ := os.Hostname()
	_, port, _ := net.SplitHostPort(e.Addr().String()) // a listener's address always has a port
	resolved := []string{"http://<hostname><:port>/", "http://localhost.localdomain<:port>/"}
	for _, form := range urls {
		ports := []string{""}
		if strings.Contains(form, "<:port>") {
			ports = append(ports, ":"+port)
		}
		for _, p := range ports {
			u := strings.NewReplacer("<target>", t.host, "<listener>", "127.0.0.1:"+port, "<hostname>", host, "<:port>",
				p).Replace(form)
			t.lured(ctx, x, u, !t.own() || p == "" && slices.Contains(resolved, form))
		}
	}
	if n := e.heard.Load(); n > 0 {
		x.fail("%d connections arrived", n)
	}
}

// lured asks for calls to one URL. late means that a job with the URL may be accepted and has to fail at the call.
func (t *Target) lured(ctx context.Context, x *trial, u string, late bool) {
	refused, notOne, says := []string{"422 INVALID_PAYLOAD"}, []string{"400 INVALID_REQUEST"},
		"it has no address that is called"
	if at, err := url.Parse(u); err == nil && late && !leadsHere(ctx, at.Hostname()) {
		says = "" // the name leads nowhere, or to another machine
	}
	if late {
		refused, notOne = append(refused, "202"), append(notOne, "202")
	}
	for what, a := range map[string]answer{
		u: t.job(ctx, "SEND_WEBHOOK", object{"url": u}),
		u + " as an endpoint": t.job(ctx, "FORWARD_DOCUMENT",
			object{"documentId": "a", "contentType": "text/plain", "body": 1,
				"endpoints": []string{u}}),
	} {
		x.want(what, a, refused...)
		t.failed(ctx, x, what, a, says)
	}
	callback := object{"callbackUrl": u, "payload": object{"steps": []object{{"type": "LOG", "message": "x"}}}}
	x.want(u+" as callbackUrl", t.send(ctx, t.alice, "POST", "/paid/submit", text(callback)), notOne...)
}

// leadsHere says whether a name leads to loopback and private addresses only.
func leadsHere(ctx context.Context, host string) bool {
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	return err == nil && len(addrs) > 0 &&
		!slices.ContainsFunc(addrs, func(a netip.Addr) bool { return !a.IsLoopback() && !a.IsPrivate() })
}

// failed checks that an accepted job fails, and that its error contains says ("" = any error). The error shows
// whether the server refused to call the address or only found no connection.
func (t *Target) failed(ctx context.Context, x *trial, what string, a answer, says string) {
	if a.status != 202 {
		return
	}
	id := strings.TrimPrefix(a.header.Get("Location"), "/result/poll?jobId=")
	poll := string(t.send(ctx, t.alice, "GET", "/result/poll?jobId="+id+"&wait=20s", "").body)
	if !strings.Contains(poll, `"FAILED"`) || !strings.Contains(poll, says) {
		x.fail("%s: the job did not fail as it should: %s", what, poll)
	}
}

// proxied checks that the server does not use a proxy from its environment. A proxy would resolve the name itself,
// behind all checks.
func proxied(ctx context.Context, t *Target, x *trial) {
	if t.proxy == nil {
		x.absent = "its environment is not known; TestNoProxy tries it"
		return
	}
	before := t.proxy.heard.Load()
	a := t.job(ctx, "SEND_WEBHOOK", object{"url": "http://nowhere.invalid/"})
	x.want("http://nowhere.invalid/", a, "202", "422 INVALID_PAYLOAD")
	t.failed(ctx, x, "http://nowhere.invalid/", a, "")
	if n := t.proxy.heard.Load() - before; n > 0 {
		x.fail("the proxy was asked %d times", n)
	}
}

func asTimeout(err error, late *net.Error) bool { return errors.As(err, late) && (*late).Timeout() }

// soon is how long a process may take to refuse its settings.
const soon = 20 * time.Second

package attack

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// outgoing are the attacks with URLs that the server is asked to call.
func outgoing() []Attack {
	urls := func(id, what string, urls ...string) Attack {
		return Attack{ID: id, What: what, try: func(ctx context.Context, t *Target, x *trial) { lure(ctx, t, x, urls...) }}
	}
	return []Attack{
		urls("A32", "URLs of this machine", "http://127.0.0.1/", "http://127.0.0.1:80/", "https://127.0.0.1:443/", "http://127.255.255.254/",
			"http://0.0.0.0/", "http://10.0.0.1/", "http://192.168.0.1/", "http://172.16.0.1/", "http://100.64.0.1/"),
		urls("A33", "decimal, octal, hexadecimal and short addresses", "http://2130706433/", "http://0177.1/", "http://0177.0.0.1/",
			"http://0x7f.1/", "http://0x7f000001/", "http://127.1/", "http://127.0.1/", "http://0/", "http://127.0.0.1./"),
		urls("A34", "IPv6, and IPv4 inside of it", "http://[::1]/", "http://[::]/", "http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/",
			"http://[64:ff9b::7f00:1]/", "http://[fe80::1%25lo]/", "http://[fc00::1]/", "http://[2002:7f00:1::]/", "http://[::127.0.0.1]/"),
		urls("A35", "metadata services", "http://169.254.169.254/latest/meta-data/", "http://metadata.google.internal/",
			"http://[fd00:ec2::254]/", "http://100.100.100.200/"),
		urls("A36", "names that lead to this machine", "http://localhost/", "http://localhost.localdomain/", "http://a.localhost/",
			"http://<hostname>/"),
		urls("A38", "other schemes", "gopher://127.0.0.1:6379/_FLUSHALL", "file:///etc/passwd", "unix:///run/docker.sock",
			"data:text/plain,x", "ftp://127.0.0.1/", "javascript:alert(1)", "//127.0.0.1/", "HTTP:127.0.0.1"),
		urls("A39", "user names, fragments, blanks, other alphabets in the host", "http://good.example@127.0.0.1/",
			"http://127.0.0.1#@good.example/", "http://127.0.0.1\t/", "http://127.0.0.1\n/", "http://ⓛocalhost/", "http://127。0。0。1/",
			"http://good.example\\@127.0.0.1/",
			"http://%31%32%37.0.0.1/"),
		urls("A40", "the server's own port, and its stores'", "http://<target>/admin/keys", "http://127.0.0.1:6379/",
			"http://127.0.0.1:3306/", "http://good.example:6379/", "http://<listener>/"),
		{ID: "A41", What: "HTTP_PROXY in the server's environment", try: proxied},
	}
}

// ear is a listener on loopback that should hear nothing.
type ear struct {
	net.Listener
	heard atomic.Int64
}

func listen(ctx context.Context) (*ear, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
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

// lure asks for calls to URLs, as webhook, as callback and as an endpoint of a document: each is refused at once, or fails without a connection.
func lure(ctx context.Context, t *Target, x *trial, urls ...string) {
	e, err := listen(ctx)
	if err != nil {
		x.fail("listen: %v", err)
		return
	}
	defer e.Close()
	host, _ := os.Hostname()
	for _, u := range urls {
		u = strings.NewReplacer("<target>", t.host, "<listener>", e.Addr().String(), "<hostname>", host).Replace(u)
		a := t.job(ctx, "SEND_WEBHOOK", object{"url": u})
		x.want(u, a, "422 INVALID_PAYLOAD", "202")
		t.failed(ctx, x, u, a)
		a = t.job(ctx, "FORWARD_DOCUMENT", object{"documentId": "a", "contentType": "text/plain", "body": 1, "endpoints": []string{u}})
		x.want(u+" as an endpoint", a, "422 INVALID_PAYLOAD", "202")
		t.failed(ctx, x, u, a)
		callback := object{"callbackUrl": u, "payload": object{"steps": []object{{"type": "LOG", "message": "x"}}}}
		x.want(u+" as callbackUrl", t.send(ctx, t.alice, "POST", "/paid/submit", text(callback)), "400 INVALID_REQUEST", "202")
	}
	if n := e.heard.Load(); n > 0 {
		x.fail("%d connections arrived", n)
	}
}

// failed wants that a job, if it was accepted, fails.
func (t *Target) failed(ctx context.Context, x *trial, what string, a answer) {
	if a.status != 202 {
		return
	}
	id := strings.TrimPrefix(a.header.Get("Location"), "/result/poll?jobId=")
	poll := t.send(ctx, t.alice, "GET", "/result/poll?jobId="+id+"&wait=20s", "")
	if !strings.Contains(string(poll.body), `"FAILED"`) {
		x.fail("%s: the job did not fail: %s", what, poll.body)
	}
}

// proxied wants that the server asks no proxy of its environment: it would be the proxy that resolves the name, behind every check.
func proxied(ctx context.Context, t *Target, x *trial) {
	if t.proxy == nil {
		x.absent = "its environment is not known; TestNoProxy_A41 tries it"
		return
	}
	before := t.proxy.heard.Load()
	a := t.job(ctx, "SEND_WEBHOOK", object{"url": "http://nowhere.invalid/"})
	x.want("http://nowhere.invalid/", a, "202", "422 INVALID_PAYLOAD")
	t.failed(ctx, x, "http://nowhere.invalid/", a)
	if n := t.proxy.heard.Load() - before; n > 0 {
		x.fail("the proxy was asked %d times", n)
	}
}

func asTimeout(err error, late *net.Error) bool { return errors.As(err, late) && (*late).Timeout() }

// soon is how long a process may take to refuse its settings.
const soon = 20 * time.Second

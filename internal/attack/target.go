package attack

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Target is a server that runs, with the keys that the attacks need: made with an administrator's, and revoked when it
// is left.
type Target struct {
	host   string // 127.0.0.1:8080
	client *http.Client

	patience time.Duration // an honest caller's, while somebody attacks

	// Of a server of our own; else nil and "".
	log   func() string // what it wrote so far
	proxy *ear          // its HTTP_PROXY
	bin   string
	env   []string

	admin, alice, bob, public, reader, worker, gone string // keys
	made                                            []string
}

// Aim takes a server that runs on this machine; key is an administrator's.
func Aim(ctx context.Context, base, key string) (*Target, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" || u.Path != "" && u.Path != "/" {
		return nil, errors.New("the server must look like http://127.0.0.1:8080")
	}
	if a, err := netip.ParseAddr(u.Hostname()); u.Hostname() != "localhost" && (err != nil || !a.IsLoopback()) {
		return nil, errors.New("only a server on a loopback address is attacked")
	}
	t := &Target{host: u.Host, admin: key, client: newClient(), patience: patience}
	return t, t.arm(ctx)
}

func newClient() *http.Client {
	return &http.Client{
		Timeout: 30 * time.Second,
		Transport: &http.Transport{MaxIdleConnsPerHost: 100,
			DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// arm makes the keys.
func (t *Target) arm(ctx context.Context) error {
	for _, k := range []struct {
		into *string
		body string
	}{
		{&t.alice, `{"name":"attack alice","role":"submit"}`},
		{&t.bob, `{"name":"attack bob","role":"submit"}`},
		{&t.public, `{"name":"attack public","role":"submit","tiers":["PUBLIC"]}`},
		{&t.reader, `{"name":"attack reader","role":"read-only"}`},
		{&t.worker, `{"name":"attack worker","role":"worker"}`},
		{&t.gone, `{"name":"attack gone","role":"admin"}`},
	} {
		key, err := t.newKey(ctx, k.body)
		if err != nil {
			return err
		}
		*k.into = key
	}
	if a := t.send(ctx, t.admin, "DELETE", "/admin/keys/"+idOf(t.gone), ""); a.status != http.StatusNoContent {
		return fmt.Errorf("revoke a key: %s", a)
	}
	return nil
}

// newKey makes a key that is revoked when the target is left.
func (t *Target) newKey(ctx context.Context, body string) (string, error) {
	a := t.send(ctx, t.admin, "POST", "/admin/keys", body)
	var made struct{ Key string }
	if a.status != http.StatusCreated || json.Unmarshal(a.body, &made) != nil || idOf(made.Key) == "" {
		return "", fmt.Errorf("make a key for the attacks: %s", a)
	}
	t.made = append(t.made, made.Key)
	return made.Key, nil
}

// Leave revokes the keys.
func (t *Target) Leave(ctx context.Context) {
	for _, key := range t.made {
		t.send(ctx, t.admin, "DELETE", "/admin/keys/"+idOf(key), "")
	}
	t.client.CloseIdleConnections()
}

// idOf is the id in a key's text, "" if it is none.
func idOf(key string) string {
	parts := strings.SplitN(key, "_", 3)
	if len(parts) != 3 || parts[0] != "tq" {
		return ""
	}
	return parts[1]
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
	bare   bool // net/http answered, before the server's own code was reached
	err    error
}

func (a answer) code() string {
	var p struct{ ErrorCode string }
	_ = json.Unmarshal(a.body, &p)
	return p.ErrorCode
}

// String is "404 JOB_NOT_FOUND", or "closed", or "nothing" where none came in time.
func (a answer) String() string {
	var slow net.Error
	switch {
	case errors.As(a.err, &slow) && slow.Timeout():
		return "nothing"
	case a.err != nil:
		return "closed"
	case a.code() != "":
		return fmt.Sprintf("%d %s", a.status, a.code())
	}
	return fmt.Sprint(a.status)
}

// busy is how long the server may say that it is: machines that run attacks are, and the gate that closes for it opens
// after two seconds.
const busy = 15 * time.Second

// send is once, again and again while the server says that it cannot serve now.
func (t *Target) send(ctx context.Context, key, method, path, body string, headers ...string) answer {
	for end := time.Now().Add(busy); ; {
		a := t.once(ctx, key, method, path, body, headers...)
		if !a.unhealthy() || ctx.Err() != nil || time.Now().After(end) {
			return a
		}
		<-time.After(250 * time.Millisecond)
	}
}

// unhealthy is an answer that says: come again.
func (a answer) unhealthy() bool {
	return a.code() == "SYSTEM_UNHEALTHY" || a.code() == "OUTCOME_UNKNOWN" ||
		a.status == http.StatusServiceUnavailable && bytes.Contains(a.body, []byte("OUT_OF_SERVICE"))
}

// once makes a request as a key's holder, "" = as a stranger. The path goes out as it stands. A body is JSON unless a
// header says otherwise; headers are name, value, name, value.
func (t *Target) once(ctx context.Context, key, method, path, body string, headers ...string) answer {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+t.host+"/", strings.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	r.URL = &url.URL{Scheme: "http", Host: t.host, Opaque: path}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := t.client.Do(r)
	if err != nil {
		return answer{err: err}
	}
	return read(resp)
}

func read(resp *http.Response) answer {
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 8<<20))
	return answer{
		status: resp.StatusCode, header: resp.Header, body: body, err: err,
		bare: resp.Header.Get("X-Trace-Id") == "" && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain"),
	}
}

// raw sends bytes as they are over a connection of its own, and reads one answer to them.
func (t *Target) raw(ctx context.Context, text string) answer {
	conn, err := t.dial(ctx)
	if err != nil {
		return answer{err: err}
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second)) // a connection that is broken says so
	go func() { _, _ = io.WriteString(conn, text) }()      // a server that has read enough answers, and reads no further
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return answer{err: err}
	}
	return read(resp)
}

func (t *Target) dial(ctx context.Context) (net.Conn, error) {
	return (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", t.host)
}

// submit is a job of a key's holder, "" if it was not accepted.
func (t *Target) submit(ctx context.Context, key, body string) (id string) {
	a := t.send(ctx, key, "POST", "/paid/submit", body)
	var accepted struct{ ApiResponseData struct{ JobID string } } //nolint:revive // the contract's word
	_ = json.Unmarshal(a.body, &accepted)
	return accepted.ApiResponseData.JobID
}

// request is the head of a request of alice's, to be sent as it stands; each header is a line.
func (t *Target) request(method, path string, headers ...string) string {
	text := method + " " + path + " HTTP/1.1\r\nHost: " + t.host + "\r\nAuthorization: Bearer " + t.alice + "\r\n"
	for _, h := range headers {
		text += h + "\r\n"
	}
	return text + "\r\n"
}

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

// Target is a running server with the API keys that the attacks need. An administrator's key makes them; Leave
// revokes them.
type Target struct {
	host   string // 127.0.0.1:8080
	client *http.Client

	patience time.Duration // how long an honest caller waits during an attack

	// These are nil and "" unless the server was started by Own.
	log   func() string // returns the server's output so far
	proxy *ear          // the proxy in the server's HTTP_PROXY
	bin   string
	env   []string

	gatewayAddr string // of the listener for Faktory's clients

	admin, alice, bob, public, reader, worker, gone string // keys
	made                                            []string
}

// Aim returns a target for a server that runs on this machine; key is an administrator's. A server that is not on
// a loopback address is an error.
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

// arm makes the keys and revokes one of them.
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

// newKey makes a key that Leave revokes.
func (t *Target) newKey(ctx context.Context, body string) (string, error) {
	a := t.send(ctx, t.admin, "POST", "/admin/keys", body)
	var made struct{ Key string }
	if a.status != http.StatusCreated || json.Unmarshal(a.body, &made) != nil || idOf(made.Key) == "" {
		return "", fmt.Errorf("make a key for the attacks: %s", a)
	}
	t.made = append(t.made, made.Key)
	return made.Key, nil
}

// Leave revokes the keys that were made.
func (t *Target) Leave(ctx context.Context) {
	for _, key := range t.made {
		t.send(ctx, t.admin, "DELETE", "/admin/keys/"+idOf(key), "")
	}
	t.client.CloseIdleConnections()
}

// idOf returns the id in a key's text; "" = the text is no key.
func idOf(key string) string {
	parts := strings.SplitN(key, "_", 3)
	if len(parts) != 3 || parts[0] != "tq" {
		return ""
	}
	return parts[1]
}

// answer is the answer to a request.
type answer struct {
	status int
	header http.Header
	body   []byte
	bare   bool // net/http answered before the request reached the server's own code
	err    error
}

func (a answer) code() string {
	var p struct{ ErrorCode string }
	_ = json.Unmarshal(a.body, &p)
	return p.ErrorCode
}

// String returns "404 JOB_NOT_FOUND", "404" without a code, "closed" for a broken connection, or "nothing" if no
// answer came in time.
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

// busy is how long the server may answer that it is busy. A machine that runs attacks is busy, and the gate that
// closes for it opens after two seconds.
const busy = 15 * time.Second

// send sends a request with once, again and again for up to busy while the server answers that it is unhealthy.
func (t *Target) send(ctx context.Context, key, method, path, body string, headers ...string) answer {
	for end := time.Now().Add(busy); ; {
		a := t.once(ctx, key, method, path, body, headers...)
		if !a.unhealthy() || ctx.Err() != nil || time.Now().After(end) {
			return a
		}
		<-time.After(250 * time.Millisecond)
	}
}

// unhealthy says whether an answer asks the caller to come again.
func (a answer) unhealthy() bool {
	return a.code() == "SYSTEM_UNHEALTHY" || a.code() == "OUTCOME_UNKNOWN" ||
		a.status == http.StatusServiceUnavailable && bytes.Contains(a.body, []byte("OUT_OF_SERVICE"))
}

// once sends a request with a key ("" = none). The path is sent as it is. A body is JSON unless a header says
// otherwise. headers are name, value, name, value.
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

// raw sends text as it is over a new connection and reads one answer.
func (t *Target) raw(ctx context.Context, text string) answer {
	conn, err := t.dial(ctx)
	if err != nil {
		return answer{err: err}
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second)) // a broken connection fails in the calls below
	go func() { _, _ = io.WriteString(conn, text) }()      // the server may answer without reading all of it
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return answer{err: err}
	}
	return read(resp)
}

func (t *Target) dial(ctx context.Context) (net.Conn, error) {
	return (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", t.host)
}

// submit submits a job with a key and returns its id; "" = the job was not accepted.
func (t *Target) submit(ctx context.Context, key, body string) (id string) {
	a := t.send(ctx, key, "POST", "/paid/submit", body)
	var accepted struct{ ApiResponseData struct{ JobID string } } //nolint:revive // the contract's word
	_ = json.Unmarshal(a.body, &accepted)
	return accepted.ApiResponseData.JobID
}

// request returns the head of a request with alice's key; each header is a line.
func (t *Target) request(method, path string, headers ...string) string {
	text := method + " " + path + " HTTP/1.1\r\nHost: " + t.host + "\r\nAuthorization: Bearer " + t.alice + "\r\n"
	for _, h := range headers {
		text += h + "\r\n"
	}
	return text + "\r\n"
}

package attack

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// faktory returns the attacks on the listener for Faktory's clients. A server that was not started by Own may have
// none.
func faktory() []Attack {
	return []Attack{
		{ID: "A65", What: "Faktory: no HELLO, lines without end, half lines, deep JSON", try: faktoryLines},
		{ID: "A66", What: "Faktory: guessed passwords, the proof of another connection", try: faktoryPasswords, last: true},
		{ID: "A67", What: "Faktory: jids, wids and queues as keys; FLUSH and others' queues by a key", try: faktoryTexts},
	}
}

// gatewayConn is a connection of a hostile client.
type gatewayConn struct {
	net.Conn
	in *bufio.Reader
	hi struct {
		Salt string `json:"s"`
		I    int    `json:"i"`
	}
}

// gateway connects to the listener, and reads its greeting. nil = the attack cannot go on, which x says.
func (t *Target) gateway(ctx context.Context, x *trial) *gatewayConn {
	if t.gatewayAddr == "" {
		x.absent = "it needs the listener; TestHello_Passwords, TestLines and TestRights try it"
		return nil
	}
	d := net.Dialer{Timeout: 5 * time.Second}
	nc, err := d.DialContext(ctx, "tcp", t.gatewayAddr)
	if err != nil {
		x.fail("connect: %v", err)
		return nil
	}
	c := &gatewayConn{Conn: nc, in: bufio.NewReader(nc)}
	hi := c.reads()
	if err := json.Unmarshal([]byte(strings.TrimPrefix(hi, "+HI ")), &c.hi); err != nil || c.hi.Salt == "" {
		x.fail("it greets with %q", hi)
		_ = nc.Close()
		return nil
	}
	return c
}

// reads returns the first line of the next reply; "closed" at the end, "nothing" if none comes in time.
func (c *gatewayConn) reads() string {
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	line, err := c.in.ReadString('\n')
	var late net.Error
	switch {
	case asTimeout(err, &late):
		return "nothing"
	case err != nil:
		return "closed"
	}
	return strings.TrimSpace(line)
}

func (c *gatewayConn) asks(line string) string {
	_ = c.SetWriteDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.Write([]byte(line + "\n")); err != nil {
		return "closed"
	}
	return c.reads()
}

// hello says HELLO with what a password makes of a salt.
func (c *gatewayConn) hello(user, password, salt, more string) string {
	sum := sha256.Sum256([]byte(password + salt))
	for range c.hi.I - 1 {
		sum = sha256.Sum256(sum[:])
	}
	return c.asks(fmt.Sprintf(`HELLO {"v":2,"username":%q,"pwdhash":%q%s}`, user, hex.EncodeToString(sum[:]), more))
}

// password returns the password of a key for the listener.
func (t *Target) password(ctx context.Context, x *trial, key string) string {
	a := t.send(ctx, key, "POST", "/api/me/gateway", "")
	var made struct{ Password string }
	if a.status != http.StatusOK || json.Unmarshal(a.body, &made) != nil || made.Password == "" {
		x.fail("the password of a key: %s %s", a, a.body)
	}
	return made.Password
}

// enters connects as a key; nil = it could not, which x says.
func (t *Target) enters(ctx context.Context, x *trial, key, more string) *gatewayConn {
	c := t.gateway(ctx, x)
	if c == nil {
		return nil
	}
	if got := c.hello(idOf(key), t.password(ctx, x, key), c.hi.Salt, more); got != "+OK" {
		x.fail("a right password: %s", got)
		_ = c.Close()
		return nil
	}
	return c
}

func faktoryLines(ctx context.Context, t *Target, x *trial) {
	for what, line := range map[string]string{
		"a command before HELLO": "INFO", "a HELLO that is none": "HELLO {", "bytes": "\x16\x03\x01\x00\xff",
		"a long HELLO": `HELLO {"hostname":"` + strings.Repeat("x", 100_000), "a PUSHB before HELLO": "PUSHB [" +
			strings.Repeat("[", 100_000),
	} {
		c := t.gateway(ctx, x)
		if c == nil {
			return
		}
		if got := c.asks(line); got != "closed" && !strings.HasPrefix(got, "-ERR ") {
			x.fail("%s: %s", what, got)
		}
		_ = c.Close()
	}
	const silent = 100
	var conns []*gatewayConn
	for range silent {
		c := t.gateway(ctx, x)
		if c == nil {
			return
		}
		_, _ = c.Write([]byte("HEL"))
		conns = append(conns, c)
	}
	x.served(ctx)
	for _, c := range conns {
		if got := c.reads(); got != "closed" {
			x.fail("without a HELLO: %s", got)
		}
		_ = c.Close()
	}
	c := t.enters(ctx, x, t.admin, "")
	if c == nil {
		return
	}
	defer c.Close()
	deep := strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)
	if got := c.asks("PUSHB " + deep); !strings.HasPrefix(got, "-ERR invalid JSON") {
		x.fail("deep JSON: %s", got)
	}
	for _, line := range []string{"", " ", "\r", "push {}", "FETCH", "ACK", "FAIL", "BEAT", "QUEUE", "MUTATE", "PUSH",
		"PUSHB", "ACK []", "FAIL {", "BEAT 1", `PUSH {"jid":1}`, "PUSHB {}", "QUEUE PAUSE", "MUTATE {}"} {
		if got := c.asks(line); !strings.HasPrefix(got, "-ERR ") {
			x.fail("%q: %s", line, got)
		}
	}
	if got := c.asks("PUSH " + strings.Repeat("x", 1<<20)); got != "closed" && got != "-ERR too long" {
		x.fail("a line without end: %s", got)
	}
	x.served(ctx)
	x.note(fmt.Sprintf("%d connections without a HELLO, lines of a megabyte, JSON of 100,000 levels", silent),
		"-ERR, or closed within 2 s")
}

func faktoryTexts(ctx context.Context, t *Target, x *trial) {
	strange := `"wid":"{tierq:0}:leases\r\n*3\r\n$3\r\nSET\u0000"`
	c := t.enters(ctx, x, t.admin, ","+strange)
	if c == nil {
		return
	}
	defer c.Close()
	for _, queue := range []string{"main", "a b", "{tierq:0}:counters", "*", "a\\r\\nFLUSHALL", "../x", ""} {
		got := c.asks(fmt.Sprintf(`PUSH {"jid":"attack-1","jobtype":"T","args":[],"queue":"%s"}`, queue))
		if queue != "" && !strings.HasPrefix(got, "-ERR ") {
			x.fail("a job into the queue %q: %s", queue, got)
		}
	}
	const jid = `{tierq:0}:leases\r\n*1\r\n$8\r\nFLUSHALL\u0000`
	if got := c.asks(`PUSH {"jid":"` + jid + `","jobtype":"T","args":[],"queue":"attack"}`); got != "+OK" {
		x.fail("a strange jid: %s", got)
	}
	if got := c.asks("FETCH attack"); !strings.HasPrefix(got, "$") || got == "$-1" {
		x.fail("the job with a strange jid: %s", got)
	}
	c.reads()
	for _, ack := range []string{`ACK {"jid":"*"}`, `ACK {"jid":"` + jid + `"}`} {
		if got := c.asks(ack); got != "+OK" {
			x.fail("%s: %s", ack, got)
		}
	}
	low := t.enters(ctx, x, t.alice, "")
	if low == nil {
		return
	}
	defer low.Close()
	for _, line := range []string{
		"FLUSH", "FETCH attack", "QUEUE REMOVE *", `MUTATE {"cmd":"clear","target":"dead"}`,
		`PUSH {"jid":"attack-2","jobtype":"T","args":[],"queue":"undeclared"}`,
	} {
		if got := low.asks(line); !strings.HasPrefix(got, "-ERR ") {
			x.fail("%s by a key that submits: %s", line, got)
		}
	}
	low.asks("INFO")
	if info := low.reads(); strings.Contains(info, "attack") {
		x.fail("INFO shows others' queues: %s", info)
	}
	if got := c.asks("FLUSH"); !strings.HasPrefix(got, "-ERR ") {
		x.fail("FLUSH without the setting: %s", got)
	}
	x.served(ctx)
	x.note("Redis' protocol and keys as jid, wid and queue; FLUSH, MUTATE, QUEUE by a key that submits", "-ERR, or data")
}

func faktoryPasswords(ctx context.Context, t *Target, x *trial) {
	first := t.gateway(ctx, x)
	if first == nil {
		return
	}
	_ = first.Close()
	right, id := t.password(ctx, x, t.alice), idOf(t.alice)
	back := map[string]int{}
	for n := range 60 {
		c := t.gateway(ctx, x)
		if c == nil {
			return
		}
		user, password, salt := id, fmt.Sprint("guess ", n), c.hi.Salt
		switch n % 4 {
		case 1:
			user = "nobody" // another user
		case 2:
			password, salt = right, first.hi.Salt // the proof that another connection has shown
		case 3:
			user, password = "", right // no user, and no key for such clients
		}
		got := c.hello(user, password, salt, "")
		if back[got]++; got != "-ERR Invalid password" && !strings.HasPrefix(got, "-ERR too many requests") {
			x.fail("a guess was answered %q", got)
		}
		if got := c.reads(); got != "closed" {
			x.fail("after a guess: %q", got)
		}
		_ = c.Close()
	}
	if back["-ERR Invalid password"] == 60 {
		x.fail("60 guesses were all looked at")
	}
	if c := t.enters(ctx, x, t.alice, ""); c != nil { // the right password, from the same address
		_ = c.Close()
	}
	x.note("60 guesses, with known, unknown and no user, and another connection's proof", fmt.Sprint(back))
}

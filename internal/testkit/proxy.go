package testkit

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Proxy stands between a Redis client and a redis-server and loses what a network can lose, at a chosen command.
// It speaks RESP2 and RESP3 and matches each reply to its request. It does not support SUBSCRIBE, whose messages
// answer no request.
//
//	p := testkit.NewProxy(t, server.Addr())
//	p.DropReply(testkit.IsScript(lua.Script("claim")))
//	... the client, at p.URL(), gets EOF for a claim that was executed ...
//	p.Dropped() // the evidence
type Proxy struct {
	*gate

	mu        sync.Mutex
	rules     []*rule
	dropped   []Drop
	delay     time.Duration
	blackhole bool
	suffered  int // requests swallowed and replies held back or swallowed
}

// Drop is the evidence of one loss.
type Drop struct {
	Args     []string // the request
	Executed bool     // the server answered; the reply was thrown away
	Reply    []byte   // that reply, raw and whole; nil if the request was dropped
}

// Line returns the first line of the reply, without its line end: ":1", "+OK", "-ERR ...".
func (d Drop) Line() string {
	line, _, _ := bytes.Cut(d.Reply, []byte("\r\n"))
	return string(line)
}

// rule waits for the next request that matches.
type rule struct {
	match func(args []string) bool
	reply bool // drop the reply, not the request
	half  bool // of the reply, the first half is delivered
}

// NewProxy listens on a free port and dials backend (host:port) for each connection. It closes with the test.
func NewProxy(t testing.TB, backend string) *Proxy {
	t.Helper()
	p, err := StartProxy(backend)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// StartProxy is NewProxy for a program that is not a test: the caller closes the proxy.
func StartProxy(backend string) (*Proxy, error) {
	p := &Proxy{}
	g, err := newGate(backend, func(l *link) { newRESPLink(p, l).run() })
	if err != nil {
		return nil, err
	}
	p.gate = g
	return p, nil
}

// URL returns redis://host:port/0.
func (p *Proxy) URL() string { return "redis://" + p.Addr() + "/0" }

// DropReply arms one loss. The server executes the next request that matches; the proxy reads its reply to the
// end, drops it and closes the client's connection. After a NOSCRIPT reply nothing was executed: the proxy passes
// that reply on and keeps the rule for the EVAL that follows. The args of match are the command as the client
// spelled it. Match must not call the Proxy.
func (p *Proxy) DropReply(match func(args []string) bool) { p.arm(&rule{match: match, reply: true}) }

// HalveReply arms one loss. It works as DropReply, but the client gets the first half of the reply and then a
// reset.
func (p *Proxy) HalveReply(match func(args []string) bool) {
	p.arm(&rule{match: match, reply: true, half: true})
}

// DropRequest arms one loss. The next request that matches never reaches the server, and the proxy closes the
// client's connection.
func (p *Proxy) DropRequest(match func(args []string) bool) { p.arm(&rule{match: match}) }

// Dropped returns the losses so far. A loss is recorded before the client sees its connection closed.
func (p *Proxy) Dropped() []Drop {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.dropped)
}

// Armed returns the number of rules that no request has matched yet.
func (p *Proxy) Armed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.rules)
}

// Cut closes every open connection, both sides. New connections are accepted.
func (p *Proxy) Cut() {
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	p.cutAll()
}

// Disarm removes the rules that no request has matched yet.
func (p *Proxy) Disarm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = nil
}

// Suffered counts the replies that Delay held back and the requests and replies that Blackhole swallowed: the
// evidence that the fault had an effect.
func (p *Proxy) Suffered() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.suffered
}

// Delay delays each reply by d from its arrival: this is latency, not bandwidth.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Blackhole swallows every request and every reply while it is on. It closes no connection. Swallowed bytes stay
// lost.
func (p *Proxy) Blackhole(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.blackhole = on
}

func (p *Proxy) arm(r *rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, r)
}

// rearm puts a rule back at the front, where it was.
func (p *Proxy) rearm(r *rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = slices.Insert(p.rules, 0, r)
}

func (p *Proxy) record(d Drop) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropped = append(p.dropped, d)
}

// judge removes and returns the first rule that matches this request, with the request's words. swallow means that
// the blackhole is on.
func (p *Proxy) judge(frame []byte) (r *rule, args []string, swallow bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.blackhole {
		p.suffered++
	}
	if p.blackhole || len(p.rules) == 0 {
		return nil, nil, p.blackhole
	}
	args = words(frame)
	i := slices.IndexFunc(p.rules, func(r *rule) bool { return r.match(args) })
	if i < 0 {
		return nil, nil, false
	}
	r = p.rules[i]
	p.rules = slices.Delete(p.rules, i, i+1)
	return r, args, false
}

func (p *Proxy) weather() (delay time.Duration, blackhole bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.blackhole || p.delay > 0 {
		p.suffered++
	}
	return p.delay, p.blackhole
}

// ScriptSHA returns the hash by which EVALSHA names a script.
func ScriptSHA(src string) string {
	sum := sha1.Sum([]byte(src))
	return hex.EncodeToString(sum[:])
}

// IsScript matches a call of this script by EVALSHA, EVAL or their _RO forms.
func IsScript(src string) func(args []string) bool {
	sha := ScriptSHA(src)
	return func(args []string) bool {
		if len(args) < 2 {
			return false
		}
		switch strings.ToUpper(args[0]) {
		case "EVALSHA", "EVALSHA_RO":
			return strings.EqualFold(args[1], sha)
		case "EVAL", "EVAL_RO":
			return args[1] == src
		}
		return false
	}
}

// IsCommand matches a command by its name, in any case.
func IsCommand(name string) func(args []string) bool {
	return func(args []string) bool { return len(args) > 0 && strings.EqualFold(args[0], name) }
}

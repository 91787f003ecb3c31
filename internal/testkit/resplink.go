package testkit

import (
	"bufio"
	"bytes"
	"net"
	"sync"
	"time"
)

// respLink carries one connection through the Proxy: requests one way, and back the replies, each with the request it
// answers.
type respLink struct {
	*link
	proxy   *Proxy
	asked   chan asked
	answers chan answer

	mu     sync.Mutex
	owed   int  // marked requests whose reply has not been dropped yet
	hungUp bool // the client is gone
}

// asked is a request that went to the server.
type asked struct {
	rule *rule // its reply is to be dropped; usually nil
	args []string
}

// answer is a reply on its way to the client.
type answer struct {
	frame []byte
	due   time.Time
	last  bool // instead of a frame: hang up
	reset bool // with last: by a reset
}

func newRESPLink(p *Proxy, l *link) *respLink {
	// Deeper than any pipeline of ours: a client sends all of it before it reads.
	return &respLink{link: l, proxy: p, asked: make(chan asked, 1<<12), answers: make(chan answer, 1<<12)}
}

func (l *respLink) run() {
	var parts sync.WaitGroup
	for _, part := range []func(){l.requests, l.replies, l.deliver} {
		parts.Go(part)
	}
	parts.Wait()
}

// requests reads from the client.
func (l *respLink) requests() {
	defer l.clientLeft()
	from, to := bufio.NewReader(l.client), bufio.NewWriter(l.server)
	for {
		frame, err := readFrame(from)
		if err != nil {
			return
		}
		r, args, swallow := l.proxy.judge(frame)
		if swallow {
			continue
		}
		if r != nil && !r.reply {
			// What came before it in the pipeline was sent before it, so it is sent.
			_ = to.Flush() // a dead server is noticed by the reader of its replies
			l.proxy.record(Drop{Args: args})
			l.cut()
			return
		}
		if r != nil {
			l.owe(1)
		}
		select {
		case l.asked <- asked{rule: r, args: args}:
		case <-l.over:
			return
		}
		if _, err := to.Write(frame); err != nil {
			return
		}
		if from.Buffered() == 0 {
			if err := to.Flush(); err != nil {
				return
			}
		}
	}
}

func (l *respLink) owe(n int) (owed int, hungUp bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owed += n
	return l.owed, l.hungUp
}

// clientLeft closes the server's side too, so that a BLPOP nobody waits for takes no token; but not while a reply must
// still be read as evidence.
func (l *respLink) clientLeft() {
	l.mu.Lock()
	l.hungUp = true
	owed := l.owed
	l.mu.Unlock()
	if owed == 0 {
		l.cut()
	}
}

// hangUp closes the link when the client has what was sent before; by a reset, where a reply broke off.
func (l *respLink) hangUp(reset bool) {
	l.mu.Lock()
	l.owed = 0 // from here on, whoever finds the client gone cuts
	gone := l.hungUp
	l.mu.Unlock()
	if gone {
		l.cut()
		return
	}
	l.send(answer{last: true, reset: reset})
}

// replies reads from the server. After a dropped reply the client gets nothing more; other marked requests that are
// already on their way are still read.
func (l *respLink) replies() {
	from := bufio.NewReader(l.server)
	silent, half := false, false
	defer func() { l.hangUp(half) }()
	for {
		frame, err := readFrame(from)
		if err != nil {
			return
		}
		if frame[0] == '>' { // unasked, belongs to no request
			if !silent {
				l.send(answer{frame: frame})
			}
			continue
		}
		var request asked
		select {
		case request = <-l.asked:
		case <-l.over:
			return
		}
		if request.rule != nil {
			dropped := !bytes.HasPrefix(frame, []byte("-NOSCRIPT"))
			if dropped {
				l.proxy.record(Drop{Args: request.args, Executed: true, Reply: frame})
				if request.rule.half {
					l.send(answer{frame: frame[:len(frame)/2]})
					half = true
				}
				silent = true
			} else {
				l.proxy.rearm(request.rule)
			}
			if owed, hungUp := l.owe(-1); owed == 0 && (silent || hungUp) {
				return
			}
		}
		if !silent {
			l.send(answer{frame: frame})
		}
	}
}

// send queues an answer with its time, unless it is swallowed.
func (l *respLink) send(a answer) {
	delay, blackhole := l.proxy.weather()
	if blackhole && !a.last {
		return
	}
	if delay > 0 {
		a.due = time.Now().Add(delay)
	}
	select {
	case l.answers <- a:
	case <-l.over:
	}
}

// deliver writes to the client, each answer when it is due.
func (l *respLink) deliver() {
	to := bufio.NewWriter(l.client)
	for {
		var a answer
		select {
		case a = <-l.answers:
		case <-l.over:
			return
		}
		if wait := time.Until(a.due); !a.due.IsZero() && wait > 0 {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-l.over:
				timer.Stop()
				return
			}
		}
		if a.last {
			_ = to.Flush() // the client may be gone; then nobody misses it
			if tcp, ok := l.client.(*net.TCPConn); ok && a.reset {
				_ = tcp.SetLinger(0) // what was flushed arrives all the same
			}
			l.cut()
			return
		}
		_, err := to.Write(a.frame)
		if err == nil && len(l.answers) == 0 {
			err = to.Flush()
		}
		if err != nil {
			l.clientLeft()
			return
		}
	}
}

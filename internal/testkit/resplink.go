package testkit

import (
	"bufio"
	"bytes"
	"net"
	"sync"
	"time"
)

// respLink carries one connection through the Proxy: the requests to the server, and each reply back, matched to
// its request.
type respLink struct {
	*link
	proxy   *Proxy
	asked   chan asked
	answers chan answer

	mu     sync.Mutex
	owed   int  // requests with a rule whose reply has not been dropped yet
	hungUp bool // the client has closed its side
}

// asked is a request that was sent to the server.
type asked struct {
	rule *rule // the rule that drops its reply; usually nil
	args []string
}

// answer is a reply on its way to the client.
type answer struct {
	frame []byte
	due   time.Time
	last  bool // no frame: close the connection
	reset bool // with last: close by a reset
}

func newRESPLink(p *Proxy, l *link) *respLink {
	// The channels hold more than any pipeline of the tests: a client sends its whole pipeline before it reads.
	return &respLink{link: l, proxy: p, asked: make(chan asked, 1<<12), answers: make(chan answer, 1<<12)}
}

func (l *respLink) run() {
	var parts sync.WaitGroup
	for _, part := range []func(){l.requests, l.replies, l.deliver} {
		parts.Go(part)
	}
	parts.Wait()
}

// requests reads the client's requests and sends them to the server.
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
			// The earlier requests of the pipeline reached the network before this one, so they are sent.
			_ = to.Flush() // the reader of the replies notices a dead server
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

// clientLeft closes the server's side too, so that an abandoned BLPOP takes no token. It leaves the server's side
// open while a reply must still be read as evidence.
func (l *respLink) clientLeft() {
	l.mu.Lock()
	l.hungUp = true
	owed := l.owed
	l.mu.Unlock()
	if owed == 0 {
		l.cut()
	}
}

// hangUp closes the link after the client has received all earlier answers. With reset true it closes by a reset,
// because a reply broke off.
func (l *respLink) hangUp(reset bool) {
	l.mu.Lock()
	l.owed = 0 // from here on clientLeft may cut the link
	gone := l.hungUp
	l.mu.Unlock()
	if gone {
		l.cut()
		return
	}
	l.send(answer{last: true, reset: reset})
}

// replies reads the server's replies. After a dropped reply the client gets nothing more, but replies reads on
// until it has the replies of all other requests with a rule that were already sent.
func (l *respLink) replies() {
	from := bufio.NewReader(l.server)
	silent, half := false, false
	defer func() { l.hangUp(half) }()
	for {
		frame, err := readFrame(from)
		if err != nil {
			return
		}
		if frame[0] == '>' { // a push message, which answers no request
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

// send queues an answer with the time it is due, unless the blackhole swallows it.
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

// deliver writes each answer to the client when it is due.
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
			_ = to.Flush() // the client may be gone; then the error does not matter
			if tcp, ok := l.client.(*net.TCPConn); ok && a.reset {
				_ = tcp.SetLinger(0) // flushed bytes arrive before the reset
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

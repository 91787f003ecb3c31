package worker

// ready is the leases whose handlers are to begin, in the order of their claims.
type ready struct {
	leases []*held
	next   int
}

func (r *ready) empty() bool { return r.next == len(r.leases) }

func (r *ready) push(h *held) { r.leases = append(r.leases, h) }

func (r *ready) pop() *held {
	h := r.leases[r.next]
	r.leases[r.next] = nil
	if r.next++; r.empty() {
		r.leases, r.next = r.leases[:0], 0
	}
	return h
}

// slot runs leases one after the other. A goroutine that ran before has a stack that fits its handlers, which a new one
// would have to grow for each job; so it stays, unless a handler takes it along with runtime.Goexit.
func (p *Pool) slot() {
	for h := p.called(); h != nil; {
		var stays bool
		if h, stays = p.run(h); !stays {
			return
		}
		if h == nil {
			h = p.called()
		}
	}
}

// call wakes a goroutine for what is ready, or starts one: there are never more than handlers. One at a time, and who
// comes calls the next before it runs its handler: those that return at once are run by the few that are awake, one
// after the other, and one that does not keeps nobody from being called. Pool.mu is held.
func (p *Pool) call() {
	if p.waking || p.ready.empty() {
		return
	}
	p.waking = true
	if p.idle == 0 {
		go p.slot()
		return
	}
	p.idle--
	p.woke.Signal()
}

// called waits for a call and returns the lease it is for, nil when the pool is over.
func (p *Pool) called() *held {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		for !p.waking {
			if p.over {
				return nil
			}
			p.woke.Wait()
		}
		p.waking = false
		if h := p.begin(); h != nil {
			return h
		}
		p.idle++
	}
}

// begin takes the next lease, nil if none is ready. Pool.mu is held.
func (p *Pool) begin() *held {
	if p.ready.empty() {
		return nil
	}
	h := p.ready.pop()
	p.call()
	if p.ready.empty() {
		p.freed.Set() // the claimer waits for that, if it has room
	}
	return h
}

package worker

// ready is a queue of leases whose handlers have not begun, in the order of their claims.
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

// slot runs leases one after the other. Its goroutine stays for the next lease, because its stack has already
// grown for the handlers, which a new goroutine's would have to do for each job. It ends after a handler that
// called runtime.Goexit or was stuck.
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

// call wakes a goroutine for the ready leases, or starts one; there are never more goroutines than handlers may
// run. It wakes one at a time, and each goroutine calls the next before it runs its handler. So the few goroutines
// that are awake run the handlers that return at once, and a handler that blocks does not keep others from being
// called. Pool.mu is held.
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

// called waits for a call and returns the lease to run, or nil when the pool is over.
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

// begin takes the next ready lease, or returns nil if there is none. Pool.mu is held.
func (p *Pool) begin() *held {
	if p.ready.empty() {
		return nil
	}
	h := p.ready.pop()
	p.call()
	if p.ready.empty() {
		p.freed.Set() // the claimer, if it has free slots, waits for this
	}
	return h
}

package faktory

// mostTurns is how many claims are under way at once of workers from which more FETCHes may come soon. Redis runs one
// script at a time: more claims at once would have fewer jobs each, and a script costs more than a job in it.
const mostTurns = 2

// turn waits until a worker may claim. The FETCHes that come meanwhile share its claim. A worker with a turn looks once
// whether there is a job (atOnce), so that nobody waits behind a claim that waits. A worker that got no job last time,
// or whose connections all wait already, needs no turn. done ends the turn.
func (s *Server) turn(one *fetcher) (done func(), atOnce bool) {
	s.fetchers.mu.Lock()
	waiting := len(one.waiting)
	s.fetchers.mu.Unlock()
	if !one.key.worker.mayGather(waiting) {
		return func() {}, false
	}
	select {
	case s.turns <- struct{}{}:
		return func() { <-s.turns }, true
	case <-s.io.Done():
		return func() {}, true
	}
}

// mayGather says whether more FETCHes of the worker may come soon than those that wait.
func (w *worker) mayGather(waiting int) bool {
	if !w.busy.Load() {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.conns > waiting
}

package check

import (
	"net/http"
	"slices"
	"time"
)

// keySlack is how much sooner or later than its time an Idempotency-Key may expire: the servers sweep in steps.
const keySlack = 3 * time.Second

// keysExpire is the part of S13 about time: an Idempotency-Key stands for its job for KeyLife, and no longer.
// Clients submit another job under the key before that time and after it.
func keysExpire(b *book) {
	if b.KeyLife == 0 {
		return
	}
	under := map[string][]*submit{}
	for _, s := range b.submits {
		if s.Once != "" {
			under[s.Once] = append(under[s.Once], s)
		}
	}
	for _, s := range b.submits {
		if all := under[s.Once]; s.Once != "" && len(all) > 1 {
			slices.SortStableFunc(all, func(x, y *submit) int { return x.Sent.Compare(y.Sent) })
			b.expiry(all)
			delete(under, s.Once)
		}
	}
}

// expiry compares each submit under a key with the submit that the key stood for. A submit with an unknown fate
// may have renewed the key, so that later submits prove nothing.
func (b *book) expiry(all []*submit) {
	first := all[0]
	for _, s := range all[1:] {
		if first.fate == Unknown || s.fate == Unknown {
			return
		}
		refused := s.Status == http.StatusUnprocessableEntity
		taken := first.Sent // the key counts from here at the earliest
		if arrived := b.lastArrival(first, s.Sent); arrived.After(taken) {
			taken = arrived
		}
		switch {
		case first.fate == Fail && refused:
			b.say("S13", s.Key, "the Idempotency-Key %s is refused at %s, and no job was accepted under it", s.Once,
				clock(s.Answered))
		case first.fate == Fail:
			first = s
		case refused && s.Sent.After(b.keyBegins(first, s.Answered).Add(b.KeyLife+keySlack)):
			b.say("S13", s.Key, "the Idempotency-Key %s still stands for its job, %s after that was answered; it lasts %s",
				s.Once, s.Sent.Sub(first.answered()).Round(time.Millisecond), b.KeyLife)
		case s.fate == OK && s.answered().Before(taken.Add(b.KeyLife-keySlack)):
			if !b.journaled() && b.forgot(first.Sent, s.answered()) {
				return
			}
			b.say("S13", s.Key, "the Idempotency-Key %s stands for another job %s after the first one took it; it lasts %s",
				s.Once, s.answered().Sub(taken).Round(time.Millisecond), b.KeyLife)
		}
		if s.fate == OK {
			first = s
		}
	}
}

// keyBegins returns the latest time from which a key may count. That is when its submit was answered or, if Redis
// lost the job before its end, when the job was restored: a restored job brings its key along, for the whole time.
// A frozen server that executes another request of the submit, not later than until, also begins the key anew.
func (b *book) keyBegins(s *submit, until time.Time) time.Time {
	begins := s.answered()
	if arrived := b.lastArrival(s, until); arrived.After(begins) {
		begins = arrived
	}
	for _, id := range s.named {
		_, last := b.jobs[id].span()
		for i := range b.amnesia {
			if f := &b.amnesia[i]; f.overlaps(s.Sent, last) && f.To.Add(back).After(begins) {
				begins = f.To.Add(back)
			}
		}
	}
	return begins
}

// back is how long after a loss of Redis its jobs are restored.
const back = 5 * time.Second

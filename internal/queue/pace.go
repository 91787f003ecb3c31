package queue

import (
	"sync"
	"time"
)

// pace measures how many jobs the cluster ends per second, from the counter of all acknowledged jobs.
type pace struct {
	mu        sync.Mutex
	count     int64
	at        time.Time
	perSecond float64
}

// measure takes a new reading. It ignores a reading less than half a second after the last one.
func (p *pace) measure(count int64, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at.IsZero() || count < p.count { // the first reading, or Redis started anew
		p.count, p.at, p.perSecond = count, at, 0
		return
	}
	if d := at.Sub(p.at); d >= 500*time.Millisecond {
		p.perSecond = float64(count-p.count) / d.Seconds()
		p.count, p.at = count, at
	}
}

func (p *pace) rate() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.perSecond
}

// timeToLive returns how long Redis keeps an ended job: for its retention, but no longer than the cluster needs to
// end keep jobs at the measured rate, and at least for a minute. A minute is longer than a repeated submit can be
// under way, so its second copy finds the job. With a retention of 0 Redis forgets the job at once.
func timeToLive(retention time.Duration, keep int, perSecond float64) time.Duration {
	if retention <= 0 {
		return 0
	}
	retention = max(retention, time.Minute)
	if perSecond <= 0 {
		return retention
	}
	room := float64(keep) / perSecond * float64(time.Second)
	if room >= float64(retention) {
		return retention
	}
	return min(max(time.Duration(room), time.Minute), retention)
}

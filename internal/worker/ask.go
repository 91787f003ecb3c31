package worker

import (
	"time"

	"github.com/tierq/tierq/internal/job"
)

// claimPatience is how long the claimer waits for a partition while others may have jobs. A later answer is
// handled when it comes.
const claimPatience = 250 * time.Millisecond

// claimed is the result of a claim call for one partition.
type claimed struct {
	partition int
	round     int // the round of calls that it belongs to
	bound     float64
	reply     job.ClaimReply
	sent      time.Time
	ok        bool // false: the pool stops, and no job can have been claimed
	rested    bool // there was no call: the partition has rested and may be asked again
}

func newStalls(partitions int) []growing {
	s := make([]growing, partitions)
	for i := range s {
		s[i] = growing{base: 100 * time.Millisecond, cap: time.Second}
	}
	return s
}

func (p *Pool) several() bool { return p.cfg.Partitions > 1 }

// ask claims up to n jobs from each partition and handles the answers. It returns false when the pool stops. With
// several partitions ask returns when all have answered or claimPatience is over. A partition whose calls hang or
// fail is away until its call, which repeats itself, is answered.
func (p *Pool) ask(partitions []int, n int, bound float64) bool {
	if !p.several() {
		a := claimed{bound: bound}
		a.reply, a.sent, a.ok = p.claim(0, n, bound)
		return p.answer(a)
	}
	p.round++
	round := p.round
	for _, partition := range partitions {
		p.heads.ask(partition, time.Now())
		p.out++
		p.wg.Go(func() {
			a := claimed{partition: partition, round: round, bound: bound}
			a.reply, a.sent, a.ok = p.claim(partition, n, bound)
			p.answers <- a
		})
	}
	patience := time.NewTimer(claimPatience)
	defer patience.Stop()
	for left := len(partitions); left > 0; {
		select {
		case <-p.stopping:
			return false
		case <-patience.C:
			return true
		case a := <-p.answers:
			if a.round == round {
				left--
			}
			p.answer(a)
		}
	}
	return true
}

// answer stores what a partition answered and starts the handlers of its leases. It returns false when the pool
// stops.
func (p *Pool) answer(a claimed) bool {
	h, stalled := &p.heads.all[a.partition], &p.stalls[a.partition]
	if p.several() {
		p.out--
		h.away = false
	}
	if a.rested {
		h.score = unknown
		return true
	}
	if !a.ok {
		return false
	}
	p.heads.learn(a.partition, &a.reply, time.Now())
	p.take(a.partition, a.reply.Leases, a.sent)
	switch {
	case len(a.reply.Leases) > 0 || a.reply.Expired > 0 || a.reply.Next > a.bound || a.reply.Next == none:
		stalled.reset()
	case p.several(): // the partition has a job but returned none: it rests
		h.away = true
		p.out++
		p.wg.Go(func() {
			stalled.pause(p.quiet)
			p.answers <- claimed{partition: a.partition, rested: true}
		})
	default:
		return stalled.pause(p.quiet)
	}
	return true
}

// collectLateClaims waits, when the claimer ends, for the calls that have no answer yet, and releases the jobs
// that they claimed.
func (p *Pool) collectLateClaims() {
	for p.out > 0 {
		a := <-p.answers
		p.out--
		if a.ok {
			p.take(a.partition, a.reply.Leases, a.sent)
		}
	}
}

// skipBacklogged excludes from claims the partitions that accept no endings.
func (p *Pool) skipBacklogged() {
	if !p.several() {
		return
	}
	for i := range p.heads.all {
		p.heads.all[i].blocked = p.unacked[i].full(p.cfg.Slots)
	}
}

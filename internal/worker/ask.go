package worker

import (
	"time"

	"github.com/tierq/tierq/internal/job"
)

// claimPatience is how long the claimer waits for a partition while others may have work. Who needs longer answers
// later.
const claimPatience = 250 * time.Millisecond

// claimed is how a call for one partition ended.
type claimed struct {
	partition int
	round     int // which ask it belongs to
	bound     float64
	reply     job.ClaimReply
	sent      time.Time
	ok        bool // false: the pool stops, and nothing can have been claimed
	rested    bool // there was no call: the partition may be asked again
}

func newStalls(partitions int) []growing {
	s := make([]growing, partitions)
	for i := range s {
		s[i] = growing{base: 100 * time.Millisecond, cap: time.Second}
	}
	return s
}

func (p *Pool) several() bool { return p.cfg.Partitions > 1 }

// ask claims up to n jobs from each partition, and keeps what they answer. It is false when the pool stops. With
// several partitions it comes back when all have answered or the patience is over: a partition whose calls hang or fail
// is left to its own call, which repeats itself until it is answered, and until then it is away.
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

// answer keeps what a partition said and starts what it gave. It is false when the pool stops.
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
	p.heads.learn(a.partition, a.reply.Next, time.Now())
	p.take(a.partition, a.reply.Leases, a.sent)
	switch {
	case len(a.reply.Leases) > 0 || a.reply.Next > a.bound || a.reply.Next == none:
		stalled.reset()
	case p.several(): // it says that there is a job, and gives none: do not spin, and let the others go on
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

// collectLateClaims waits for the calls that are out when the claimer ends: what they may have claimed goes back.
func (p *Pool) collectLateClaims() {
	for p.out > 0 {
		a := <-p.answers
		p.out--
		if a.ok {
			p.take(a.partition, a.reply.Leases, a.sent)
		}
	}
}

// skipBacklogged leaves alone the partitions that take no endings.
func (p *Pool) skipBacklogged() {
	if !p.several() {
		return
	}
	for i := range p.heads.all {
		p.heads.all[i].blocked = p.unacked[i].full(p.cfg.Slots)
	}
}

package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// journals draws whether a seed has the journal, and what happens to its submits.
func (p *plan) journals(r *rand.Rand) {
	if r.IntN(2) == 0 {
		return
	}
	p.journal, p.stamps = true, r.IntN(2) == 0
	for i := range p.orders {
		if o := &p.orders[i]; o.what == "submit" {
			o.troubles(r)
		}
	}
	p.repeatsOf(r)
	if p.calm {
		return
	}
	if r.IntN(2) == 0 {
		p.rates[sqlLate] = 0.06 * (0.5 + r.Float64())
	}
	if r.IntN(2) == 0 {
		return
	}
	for range 1 + r.IntN(2) {
		p.storms = append(p.storms, storm{at: ticks(r, 10, 110), what: "Redis forgets"})
	}
	// In a third of these seeds Redis also forgets long after the submits, which stamp no rows: the reconciler has
	// found the rows of delayed jobs by then.
	late := r.IntN(3) == 0
	if late {
		p.stamps = false
		p.storms, p.heal = append(p.storms, storm{at: ticks(r, 150, 300), what: "Redis forgets"}), p.heal+25*time.Second
	}
	kept := p.orders[:0]
	for _, o := range p.orders {
		if late && o.what == "submit" && r.IntN(2) == 0 {
			o.delay = ticks(r, 100, 320)
		}
		if o.what != "audit" { // Redis has lost jobs, and an audit would repair what it finds
			kept = append(kept, o)
		}
	}
	p.orders = kept
}

// troubles draws what happens to a submit on its way.
func (o *order) troubles(r *rand.Rand) {
	o.turned = r.IntN(5) == 0
	if r.IntN(4) > 0 {
		return
	}
	o.still = []string{beforeScript, beforeTakeBack}[r.IntN(2)]
	o.stillFor = ticks(r, 3, 30)
	if r.IntN(3) > 0 {
		o.stillFor = ticks(r, 50, 150)
	}
	o.wakes = []string{"", atTheLook, atTheRead}[r.IntN(3)]
	o.sends = r.IntN(3) == 0
}

// repeatsOf gives some jobs a key of their own and submits more jobs under it.
func (p *plan) repeatsOf(r *rand.Rand) {
	var jobs []int
	for i := range p.orders {
		if p.orders[i].what == "submit" && p.orders[i].once.Key == "" {
			jobs = append(jobs, i)
		}
	}
	n := 0
	for i := range min(r.IntN(4), len(jobs)) {
		of := jobs[r.IntN(len(jobs))]
		if p.orders[of].once.Key == "" {
			p.orders[of].once = job.Idempotency{Key: fmt.Sprintf("%032x", 0x100+i), Body: fmt.Sprintf("%032x", 0)}
		}
		for range 1 + r.IntN(3) {
			o := p.orders[of]
			n++
			o.id = job.ID(fmt.Sprintf("%08x-0000-7000-8000-%010x%02x", 0x300+n, 0x300+n, o.id.Partition()))
			o.once.Body = fmt.Sprintf("%032x", r.IntN(6)/5)
			o.at += ticks(r, 0, []int{4, 60, 150}[r.IntN(3)])
			o.process, o.turned, o.still = r.IntN(len(p.slots)), false, ""
			o.troubles(r)
			p.orders = append(p.orders, o)
		}
	}
}

package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// batches draws the batches of a seed, their members and what clients ask of them.
func (p *plan) batches(r *rand.Rand) {
	// The then jobs of one batch have a slice of Redis together: the shadow knows no such slices, so that none is
	// forgotten.
	p.retention = time.Hour
	p.orders = slices.DeleteFunc(p.orders, func(o order) bool { return o.what == "forget" })
	for i := range 1 + r.IntN(2) {
		batch := job.ID(fmt.Sprintf("%08x-0000-7000-8000-%010x00", 0x700+i, 0x700+i))
		tier := []job.Tier{job.Paid, job.Unpaid, job.Public}[r.IntN(3)]
		p.orders = append(p.orders, order{what: "make a batch", id: batch, tries: 4, process: r.IntN(len(p.slots)),
			then: &job.Then{Type: jobType, Tier: tier, MaxRetries: planOf(string(tier)).MaxRetries, Counts: true,
				On: []job.ThenOn{job.ThenFinished, job.ThenFinished, job.ThenSucceeded}[r.IntN(3)]}})
		p.membersOf(r, batch, i)
		at := ticks(r, 15, 80)
		if r.IntN(6) > 0 { // else it stays open
			p.orders = append(p.orders, order{at: at, what: "seal", id: batch, tries: 12, process: r.IntN(len(p.slots))})
		}
		if r.IntN(5) == 0 {
			p.orders = append(p.orders, order{at: at + ticks(r, 0, 30), what: "cancel a batch", id: batch, tries: 3,
				process: r.IntN(len(p.slots))})
		}
		for range 1 + r.IntN(5) {
			p.orders = append(p.orders, order{at: at + ticks(r, 5, 250), what: "requeue", in: batch, id: batch,
				process: r.IntN(len(p.slots)), request: fmt.Sprint("batch", i, len(p.orders))})
		}
	}
	p.bring(r)
}

// bring lets some batches bring their first members, and some come sealed.
func (p *plan) bring(r *rand.Rand) {
	n := 0x900
	for i := range p.orders {
		o := &p.orders[i]
		if o.what != "make a batch" || r.IntN(2) == 0 {
			continue
		}
		o.sealed = r.IntN(4) == 0
		for range r.IntN(5) {
			tier := tiers()[r.IntN(3)]
			n++
			id := job.ID(fmt.Sprintf("%08x-0000-7000-8000-%010x00", n, n))
			text, _ := json.Marshal(payload{id})
			o.members = append(o.members, job.JournalRow{Priority: tier.Priority, Job: job.Job{ID: id, Generation: 1,
				Tier: tier.Tier, Type: jobType, Payload: text, MaxRetries: tier.MaxRetries,
				Options: job.Options{Batch: string(o.id)}}})
		}
	}
}

// membersOf makes some submits members of a batch, and adds more. A member has no unique key.
func (p *plan) membersOf(r *rand.Rand, batch job.ID, number int) {
	var like []order
	for i := range p.orders {
		o := &p.orders[i]
		if o.what != "submit" || o.key != "" || o.batch != "" || r.IntN(2) == 0 {
			continue
		}
		o.batch, o.owner, o.quota = batch, "", 0
		o.at = max(o.at, ticks(r, 2, 8))
		if !p.journal {
			o.troubles(r)
		}
		like = append(like, *o)
	}
	for i := range 3 + r.IntN(6) {
		n := 0x800 + 0x40*number + i
		o := order{what: "submit", tier: []job.Tier{job.Paid, job.Unpaid}[r.IntN(2)], tries: 1}
		o.line = p.lineFor(o.tier, "")
		if len(like) > 0 {
			o = like[r.IntN(len(like))]
		}
		o.id, o.batch = job.ID(fmt.Sprintf("%08x-0000-7000-8000-%010x00", n, n)), batch
		o.at, o.process, o.once, o.key = ticks(r, 3, 70), r.IntN(len(p.slots)), job.Idempotency{}, ""
		o.troubles(r)
		p.orders = append(p.orders, o)
		if r.IntN(4) == 0 {
			what := []string{"cancel", "kill"}[r.IntN(2)]
			p.orders = append(p.orders, order{at: o.at + ticks(r, 0, 20), what: what, process: o.process, id: o.id})
		}
	}
}

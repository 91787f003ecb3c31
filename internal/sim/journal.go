package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// With the accept journal SQL has the row of a submit, and its Idempotency-Key, before Redis is asked. A seed in two has
// the journal on. Its clients submit by the rules of admission, which are written down here once more, and processes
// stop or die between the row, the script and the taking back. In half of those seeds Redis forgets everything.

// The times of admission and of the archive's journal.
const (
	submitPatience = 1500 * time.Millisecond
	scriptTime     = 600 * time.Millisecond
	rowTime        = time.Second
	backTime       = 400 * time.Millisecond
	submitPause    = 50 * time.Millisecond
	fewTries       = 3 // refusals of a call, and then the submit is refused
)

// JournalBugs are faults that somebody may build into the journal one day.
type JournalBugs struct {
	OwesNothing    bool // the giver leaves rows to the submits that wrote them, and gives Redis their jobs all the same
	TakesAnyRow    bool // a row is taken back also when it is not the submit's any more
	KeepsKeys      bool // a row is taken back without its key
	RepliesAtOnce  bool // a repeat is answered with a job whose own submit may still be refused
	RowLast        bool // the row is written after the script
	RefusesAlways  bool // a submit is told that it is refused although its row could not be taken back
	KeepsRows      bool // an outcome does not delete the row
	FoundIsNotOwed bool // a row whose job was found in Redis stays its submit's, and is not given to the next Redis
	GivesNothing   bool // rows of a Redis that is over are taken for those of the present one
}

// keyHeld is an Idempotency-Key in SQL.
type keyHeld struct {
	body    string
	id      job.ID
	expires time.Time
}

// Where a process stands still while it has a submit.
const (
	beforeScript   = "before the script"
	beforeTakeBack = "before the take back"
)

// When a process that stands still goes on, at the latest after its time.
const (
	atTheLook = "the giver looks" // the giver has found the row
	atTheRead = "the giver reads" // and is about to give Redis its job
)

// journals draws whether a seed has the journal on, and what befalls its submits.
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
	kept := p.orders[:0]
	for _, o := range p.orders {
		if o.what != "audit" { // an audit would mend what it finds, and there is something to find
			kept = append(kept, o)
		}
	}
	p.orders = kept
}

// troubles draws what befalls a submit on its way.
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

// repeatsOf gives some jobs a key of their own, and submits more jobs under it.
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

// sqlLate is a transaction of the journal that is committed when its caller waits no longer.
const sqlLate = "SQL executed late"

// ofJournal says whether a call is one of the journal's transactions.
func (c *call) ofJournal() bool { return c.name == "sql submit" || c.name == "sql take back" }

// writeSubmit is the transaction of a submit: its key, which stays with its first holder, and its row.
func (w *World) writeSubmit(r *job.JournalRow) job.KeyHolder {
	d, now := w.sql, time.Now()
	if key := r.Idempotency; key.Key != "" {
		h := d.keys[key.Key]
		if h == nil || !h.expires.After(now) {
			h = &keyHeld{key.Body, r.ID, now.Add(w.plan.keepKeys)}
			d.keys[key.Key] = h
		}
		if h.id != r.ID {
			of := d.rows[h.id]
			return job.KeyHolder{
				ID: h.id, OtherBody: h.body != key.Body,
				Submitting: of != nil && of.untaken(&w.Journal) && !w.Journal.RepliesAtOnce,
			}
		}
	}
	if d.rows[r.ID] == nil {
		d.rows[r.ID] = &row{JournalRow: *r, recorded: now}
	}
	d.written[r.ID] = now
	return job.KeyHolder{}
}

// takeBack is the transaction that removes a row which is still its submit's, and its key.
func (w *World) takeBack(r *job.JournalRow) (gone bool) {
	d := w.sql
	is := d.rows[r.ID]
	if is == nil || !is.untaken(&w.Journal) && !w.Journal.TakesAnyRow {
		return false
	}
	delete(d.rows, r.ID)
	if h := d.keys[r.Idempotency.Key]; h != nil && h.id == r.ID && !w.Journal.KeepsKeys {
		delete(d.keys, r.Idempotency.Key)
	}
	w.report.Faults["taken back"]++
	return true
}

func (p *process) writeSubmit(ctx context.Context, r *job.JournalRow) (job.KeyHolder, error) {
	ctx, cancel := context.WithTimeout(ctx, rowTime)
	defer cancel()
	return ask(ctx, p, "sql submit", string(r.ID), func(*database) (job.KeyHolder, error) {
		return p.world.writeSubmit(r), nil
	})
}

func (p *process) takeBack(r *job.JournalRow) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), backTime)
	defer cancel()
	return ask(ctx, p, "sql take back", string(r.ID), func(*database) (bool, error) { return p.world.takeBack(r), nil })
}

// untaken says whether the row's submit may take it back.
func (r *row) untaken(bugs *JournalBugs) bool {
	return r.Submitting && (r.Incarnation == "" || bugs.FoundIsNotOwed)
}

// foundBefore passes over a defect of the ledger, and counts it. The giver finds a job in Redis; before it notes that,
// the job ends and a requeue is promised; then the row that the giver notes as found is that of the next life, which
// Redis does not have. If the requeue itself could not give that life to Redis, nobody does. Once the ledger names the
// generation that it found, this function is to go.
func (p *process) foundBefore(r *row) bool {
	k := p.world.shadow.of(r.ID)
	if k == nil || k.generation >= r.Generation {
		return false
	}
	p.world.fault("found in an earlier life")
	return true
}

// stamp notes, behind the answer, that Redis has taken a submit: the run that has it, known before the script was sent.
func (c *client) stamp(p *process, run string, arrived time.Time) {
	if !c.world.plan.stamps || arrived.IsZero() {
		return
	}
	id := c.id
	c.world.others.Go(func() {
		<-time.After(grid)
		ctx, cancel := context.WithTimeout(context.Background(), rowTime)
		defer cancel()
		_, _ = ask(ctx, p, "sql stamp", string(id)+" "+run, func(d *database) (bool, error) {
			if r := d.rows[id]; r != nil && r.Submitting {
				r.Submitting, r.Incarnation, r.ArrivedAt = false, run, arrived
				if c.delay > 0 {
					r.RunAt = arrived.Add(c.delay)
				}
			}
			return true, nil
		})
	})
}

// isDead says whether a process has died: its clients hear nothing more.
func (p *process) isDead() bool {
	select {
	case <-p.died:
		return true
	default:
		return false
	}
}

// row is what SQL has of a submit before Redis is asked.
func (c *client) row(p *process, priority int) *job.JournalRow {
	s := c.submission()
	r := &job.JournalRow{
		Job: job.Job{
			ID: s.ID, Generation: 1, Tier: s.Tier, Type: s.Type, Owner: s.Owner, Payload: s.Payload, MaxRetries: s.MaxRetries,
			ArrivedAt: p.queue.Now(),
		},
		Priority: priority, Idempotency: s.Idempotency, Submitting: true,
	}
	if s.Delay > 0 {
		r.RunAt = r.ArrivedAt.Add(s.Delay)
	}
	return r
}

// submitFirst submits as admission does with a journal.
func (c *client) submitFirst(p *process) {
	c.fate = refused
	plan, ok := p.plans.Plan(c.tier)
	if !ok || p.isDead() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), submitPatience)
	defer cancel()
	r := c.row(p, plan.Priority)
	if c.world.Journal.RowLast {
		if c.send(ctx, p, r); c.fate != taken {
			return
		}
	}
	for {
		holder, err := p.writeSubmit(ctx, r)
		switch {
		case p.isDead():
			c.fate = unknown
		case errors.Is(err, job.ErrUnavailable) && !c.world.Journal.RowLast:
			c.fate = refused
		case err != nil:
			c.fate = unknown
		case holder.ID == "":
			if !c.world.Journal.RowLast {
				c.send(ctx, p, r)
			}
		case holder.OtherBody:
			c.fate, c.word = refused, job.Mismatch
		case holder.Submitting && !c.known(ctx, p, holder.ID):
			if <-time.After(submitPause); !p.isDead() && ctx.Err() == nil {
				continue
			}
			c.fate = unknown
		default:
			c.fate, c.word, c.first = taken, job.Replay, holder.ID
		}
		return
	}
}

// known says whether Redis has the job that a key stands for.
func (c *client) known(ctx context.Context, p *process, id job.ID) bool {
	missing, err := p.queue.Missing(ctx, []job.ID{id})
	return err == nil && len(missing) == 0 && !p.isDead()
}

// send asks Redis for a job that has its row, as often as it takes.
func (c *client) send(ctx context.Context, p *process, r *job.JournalRow) {
	if c.stand(p, beforeScript); p.isDead() {
		c.fate = unknown
		return
	}
	if c.turned {
		c.refuse(p, r, "", "") // the gate has closed meanwhile
		return
	}
	if ctx.Err() != nil && !c.sends {
		c.refuse(p, r, "", "") // it stood still for too long, and does not send it any more
		return
	}
	run, open, refusals := p.queue.KnownIncarnation(c.id.Partition()), false, 0
	for {
		call, cancel := context.WithTimeout(context.Background(), scriptTime)
		replies, err := p.queue.Submit(call, c.id.Partition(), []job.Submission{c.submission()})
		cancel()
		if p.isDead() || ctx.Err() != nil { // patience ended while the call was out
			c.fate = unknown
			return
		}
		unavailable := errors.Is(err, job.ErrUnavailable)
		if unavailable {
			refusals++
		}
		var word job.Word
		if err == nil {
			word = replies[0].Word
		}
		switch {
		case word == job.OK, word == job.Duplicate:
			c.fate, c.word = taken, word
			c.stamp(p, run, replies[0].ArrivedAt)
			return
		case word == job.Replay, word == job.Mismatch:
			if open {
				c.outliving(r)
			}
			c.refuse(p, r, word, replies[0].First)
			return
		case open: // no answer of a later copy says what became of an earlier one
		case unavailable && refusals >= fewTries, word == job.Full, word == job.Quota:
			c.refuse(p, r, word, "")
			return
		case unavailable, word == job.Late:
		default:
			open = true
		}
		<-time.After(submitPause)
		switch {
		case p.isDead(), ctx.Err() != nil && open:
			c.fate = unknown
			return
		case ctx.Err() != nil:
			c.refuse(p, r, word, "")
			return
		}
	}
}

// outliving notes a submit that admission decides on by the word of a later copy: the key is another job's, so an earlier
// copy that is still under way makes nothing. It does if that key expires first, which SQL's has done by now: a limit of
// admission's, where keys live for a minute at least. Then a job runs that nobody was told of, and it has no row.
func (c *client) outliving(r *job.JournalRow) {
	if w := c.world; w.plan.keepKeys == shortKeys {
		c.step("outliving", func() { w.sql.outliving[r.ID] = true })
	}
}

// refuse takes back the row of a submit that Redis certainly does not have. first is the job of a repeat.
func (c *client) refuse(p *process, r *job.JournalRow, word job.Word, first job.ID) {
	c.word = word
	if c.world.Journal.RowLast {
		if c.fate = refused; first != "" {
			c.fate, c.first = taken, first
		}
		return
	}
	c.stand(p, beforeTakeBack)
	gone := false
	var err error
	if !p.isDead() {
		gone, err = p.takeBack(r)
	}
	switch {
	case p.isDead(), (err != nil || !gone) && !c.world.Journal.RefusesAlways:
		c.fate = unknown
	case first != "":
		c.fate, c.first = taken, first
	default:
		c.fate = refused
	}
}

// stand is a process that stands still there, if the seed wants it to.
func (c *client) stand(p *process, where string) {
	if c.still != where {
		return
	}
	_, _ = c.world.gate.pass(context.Background(), &call{
		proc: p, kind: inside, name: "stands still", args: []string{where, string(c.id)},
		hold: time.Now().Add(c.stillFor), wakes: c.wakes,
		do: func() (any, error) { c.world.report.Faults["stands still"]++; return nil, nil },
	})
}

// wakes says whether what a standing process waits for has happened.
func (w *World) wakes(c *call) bool {
	return c.wakes != "" && w.sql.seen[sight{job.ID(c.args[1]), c.wakes}]
}

// sight is what the giver did with a row.
type sight struct {
	id   job.ID
	what string
}

// forgetAll is a restart of Redis that keeps nothing. What was on its way there is lost too.
func (w *World) forgetAll() {
	w.losses++
	w.store.mini.FlushAll()
	for p := range w.plan.partitions {
		w.nameData(p, fmt.Sprint("after ", w.losses))
	}
	kept := w.ghosts[:0]
	for _, g := range w.ghosts {
		if g.kind == toSQL {
			kept = append(kept, g)
		}
	}
	w.ghosts = kept
	w.shadow.lose()
}

// lose is told that Redis forgot everything.
func (s *shadow) lose() {
	for id, k := range s.jobs {
		k.lease = nil
		s.lost[id] = k
	}
	clear(s.jobs)
	clear(s.clock)
	clear(s.claims)
	clear(s.once)
}

// of is a job as it is, or as it was when Redis lost it; nil = nobody submitted it.
func (s *shadow) of(id job.ID) *known {
	if k := s.jobs[id]; k != nil {
		return k
	}
	return s.lost[id]
}

// all are all jobs, those that Redis lost too.
func (s *shadow) all() map[job.ID]*known {
	all := map[job.ID]*known{}
	for id := range s.lost {
		all[id] = s.of(id)
	}
	for id, k := range s.jobs {
		all[id] = k
	}
	return all
}

// journaled: whatever Redis has, or had when it lost it, SQL has too: a row, or an outcome.
func (w *World) journaled() {
	if !w.plan.journal {
		return
	}
	for id, k := range w.shadow.all() {
		_, ended := w.sql.outcomes[life{id, k.generation}]
		if r := w.sql.rows[id]; !ended && !w.sql.outliving[id] && (r == nil || r.Generation < k.generation) {
			w.fail("S1", "%s: SQL has neither its row nor its outcome", k)
		}
	}
}

// oneEach: a refused submit leaves nothing, and two jobs that Redis got under one key are further apart than a key lives.
func (w *World) oneEach() {
	under := map[string][]job.ID{}
	for _, c := range w.clients {
		if c.what != "submit" || !w.plan.journal {
			continue
		}
		if key := c.once.Key; key != "" && w.shadow.of(c.id) != nil {
			for _, other := range under[key] {
				if w.sql.written[c.id].Sub(w.sql.written[other]).Abs() < w.plan.keepKeys {
					w.fail("S13", "%s and %s are two jobs under one key", other, c.id)
				}
			}
			under[key] = append(under[key], c.id)
		}
		if c.fate != refused {
			continue
		}
		if w.sql.rows[c.id] != nil {
			w.fail("S3", "%s: its row is there", c)
		}
		if h := w.sql.keys[c.once.Key]; h != nil && h.id == c.id {
			w.fail("S13", "%s: its key stands for it", c)
		}
	}
}

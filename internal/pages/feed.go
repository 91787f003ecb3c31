package pages

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/web"
)

// feedEvent is the name of the feed's events in the stream.
const feedEvent = "feed"

const (
	toldPerLook = 20 // items between two looks; what is more is counted
	samePlaces  = 3  // looks for which a recovery that was told is not told again: it comes on two ways
	lingering   = 30 // looks for which the alarms are heard after the last listener left
)

// Subscription is a stream of events. Its channel is closed when there is nothing more to come.
type Subscription interface {
	C() <-chan job.Message
	Close()
}

// FeedOptions are what a Feed needs.
type FeedOptions struct {
	Hub *Hub
	// Alarms begins to hear, in all processes, of jobs that died and of jobs that were taken back; whatever else it brings
	// is passed over. It is heard only while somebody listens to the hub. Optional: without it the feed has what this
	// process' own watches did.
	Alarms func() Subscription
	Plan   func(job.Tier) (job.Plan, bool)
	Now    func() time.Time // Redis' clock
}

// Feed tells a hub what operators want to hear of: jobs that were taken back, jobs that died, and the gate. It is safe
// for concurrent use.
type Feed struct {
	FeedOptions
	group sync.WaitGroup

	mu      sync.Mutex
	look    int // number of the present one
	looked  bool
	open    bool // the gate, as of the last look
	told    int  // items since the last look
	more    map[string]int
	recent  map[recovery]int // and the look at which it was told
	events  Subscription     // nil = they are not heard
	alone   int              // looks without a listener
	stopped bool
}

// recovery is what one item is about: another attempt of the job comes into that status later than samePlaces looks.
type recovery struct {
	id     job.ID
	status job.Status
}

// NewFeed makes a feed that hears no events until somebody looks.
func NewFeed(o FeedOptions) *Feed {
	return &Feed{FeedOptions: o, more: map[string]int{}, recent: map[recovery]int{}}
}

// Look is called once a second with the gate as it stands. It does not block.
func (f *Feed) Look(g web.Gate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return
	}
	f.look++
	for _, kind := range slices.Sorted(maps.Keys(f.more)) {
		f.Hub.Tell(feedEvent, web.FeedItem{At: f.Now(), Kind: kind,
			Text: fmt.Sprintf("and %d more within a second", f.more[kind])})
	}
	clear(f.more)
	f.told = 0
	for r, at := range f.recent {
		if f.look-at > samePlaces {
			delete(f.recent, r)
		}
	}
	if was := f.open || !f.looked; was != g.Open {
		text := "open again: submits are let in"
		if !g.Open {
			text = "closed: " + g.Reason
		}
		f.tell(web.FeedItem{At: f.Now(), Kind: "gate", Text: text})
	}
	f.open, f.looked = g.Open, true
	f.listen()
}

// listen hears the events while somebody listens to the hub, and a while longer. The lock is held.
func (f *Feed) listen() {
	if f.Alarms == nil {
		return
	}
	if f.Hub.Listeners() > 0 {
		f.alone = 0
	} else {
		f.alone++
	}
	switch {
	case f.events == nil && f.alone == 0:
		s := f.Alarms()
		f.events = s
		f.group.Go(func() { f.hear(s) })
	case f.events != nil && f.alone > lingering:
		f.events.Close()
		f.events = nil
	}
}

// hear tells of the events until the subscription ends.
func (f *Feed) hear(s Subscription) {
	for m := range s.C() {
		if !m.Resync && !m.Bye {
			f.event(&m.Event)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.events == s {
		f.events = nil // it ended by itself: the next look begins another
	}
}

// event tells of an event that an operator wants to hear of; of most he does not.
func (f *Feed) event(e *job.Event) {
	if e.Cause == "" {
		return
	}
	item, wanted := f.item(e)
	if !wanted {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.once(recovery{e.ID, e.Status}, item)
}

// Took is called for each job that a watch of this process took back.
func (f *Feed) Took(w job.Watch, r job.Reclaimed) {
	e := job.Event{ID: r.ID, Tier: r.Tier, Cause: w.Cause(), At: f.Now()}
	switch r.Word {
	case job.OK:
		e.Status = job.Pending
	case job.Discarded:
		e.Status = job.Failed
	case job.WasCancelled:
		e.Status = job.Cancelled
	case job.Quarantined: // it has no status that anybody knows
	default:
		return
	}
	item, _ := f.item(&e)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.once(recovery{e.ID, e.Status}, item)
}

// item is what there is to say of an event.
func (f *Feed) item(e *job.Event) (item web.FeedItem, wanted bool) {
	item = web.FeedItem{At: e.At, Kind: "crashed", JobID: string(e.ID), Tier: string(e.Tier)}
	why := "its worker stopped"
	if e.Cause == job.MaxTimeExceeded {
		item.Kind, why = "stuck", "it ran for too long"
		if p, known := f.Plan(e.Tier); known {
			why = "it ran for longer than " + shortly(p.MaxProcessingTime)
		}
	}
	next := ""
	if e.Attempt > 0 {
		next = ", attempt " + strconv.Itoa(e.Attempt+1) + " comes next"
	}
	takenBack := e.Cause == job.HeartbeatStopped || e.Cause == job.MaxTimeExceeded
	switch e.Status {
	case job.Failed:
		item.Kind, item.Text = "dead", "failed for good: "+string(e.Cause)
		return item, true
	case job.Pending:
		item.Text = why + ": taken back to its place" + next
	case job.Scheduled:
		item.Text = why + ": it waits" + next
	case job.Cancelled:
		item.Text = why + ": cancelled, as was asked for"
	default:
		item.Text = why + ", and what is kept of it is broken: put aside"
	}
	return item, takenBack
}

// once tells what was not told on another way. The lock is held.
func (f *Feed) once(r recovery, item web.FeedItem) {
	if _, known := f.recent[r]; known || f.stopped {
		return
	}
	if f.tell(item) {
		f.recent[r] = f.look
	}
}

// tell tells, or counts what is too much. The lock is held.
func (f *Feed) tell(item web.FeedItem) bool {
	if f.told >= toldPerLook {
		f.more[item.Kind]++
		return false
	}
	f.told++
	f.Hub.Tell(feedEvent, item)
	return true
}

// Stop ends it: nothing is told any more. It returns when no event is heard, or ctx ends.
func (f *Feed) Stop(ctx context.Context) error {
	f.mu.Lock()
	f.stopped = true
	if f.events != nil {
		f.events.Close()
	}
	f.mu.Unlock()
	return ended(ctx, &f.group)
}

// shortly writes a setting in seconds.
func shortly(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " s" }

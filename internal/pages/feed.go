package pages

import (
	"cmp"
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
	toldPerLook = 20 // items between two calls of Look; further items are only counted
	samePlaces  = 3  // calls of Look during which the same recovery is not published again: it arrives in two ways
	lingering   = 30 // calls of Look during which the alarms are still read after the last listener left
)

// Subscription is a stream of events. Its channel is closed when no more events will come.
type Subscription interface {
	C() <-chan job.Message
	Close()
}

// FeedOptions are what a Feed needs.
type FeedOptions struct {
	Hub *Hub
	// Alarms subscribes to the events of all processes about jobs that died and jobs that were reclaimed; other
	// events are ignored. The feed subscribes only while the hub has listeners. Optional: without it the feed has
	// only what the watches of this process did.
	Alarms func() Subscription
	Plan   func(job.Tier) (job.Plan, bool)
	Now    func() time.Time // Redis' clock
}

// Feed publishes to a hub what operators want to see: jobs that were reclaimed, jobs that died, and changes of the
// gate. It is safe for concurrent use.
type Feed struct {
	FeedOptions
	group sync.WaitGroup

	mu      sync.Mutex
	look    int // number of calls of Look
	looked  bool
	open    bool // the gate at the last Look
	told    int  // items since the last Look
	more    map[string]int
	recent  map[recovery]int // with the number of the Look at which it was published
	events  Subscription     // nil = not subscribed
	alone   int              // calls of Look without a listener
	stopped bool
}

// recovery identifies an item of the feed: a job gets the same status by another attempt only after more than
// samePlaces calls of Look.
type recovery struct {
	id     job.ID
	status job.Status
}

// NewFeed makes a feed that does nothing until the first Look.
func NewFeed(o FeedOptions) *Feed {
	return &Feed{FeedOptions: o, more: map[string]int{}, recent: map[recovery]int{}}
}

// Look must be called once a second with the present gate. It does not block.
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
		text := "open again: submits are accepted"
		if !g.Open {
			text = "closed: " + g.Reason
		}
		f.tell(web.FeedItem{At: f.Now(), Kind: "gate", Text: text})
	}
	f.open, f.looked = g.Open, true
	f.listen()
}

// listen subscribes to the events while the hub has listeners, and unsubscribes a while later. The caller holds
// the lock.
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

// hear publishes the events until the subscription ends.
func (f *Feed) hear(s Subscription) {
	for m := range s.C() {
		if !m.Resync && !m.Bye {
			f.event(&m.Event)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.events == s {
		f.events = nil // the subscription ended by itself: the next Look begins another
	}
}

// event publishes an event if operators want to see it; most events are left out.
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

// Took must be called for each job that a watch of this process reclaimed.
func (f *Feed) Took(w job.Watch, r job.Reclaimed) {
	e := job.Event{ID: r.ID, Tier: r.Tier, Cause: cmp.Or(r.Cause, w.Cause()), At: f.Now()}
	switch r.Word {
	case job.OK:
		e.Status = job.Pending
	case job.Discarded:
		e.Status = job.Failed
	case job.WasCancelled:
		e.Status = job.Cancelled
	case job.Quarantined: // the job's status is unknown
	default:
		return
	}
	item, _ := f.item(&e)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.once(recovery{e.ID, e.Status}, item)
}

// item returns the feed's item for an event, and whether operators want to see it.
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
		item.Text = why + ": cancelled, as requested"
	default:
		item.Text = why + ", and its data in Redis is broken: moved to quarantine"
	}
	return item, takenBack
}

// once publishes an item unless its recovery was published before. The caller holds the lock.
func (f *Feed) once(r recovery, item web.FeedItem) {
	if _, known := f.recent[r]; known || f.stopped {
		return
	}
	if f.tell(item) {
		f.recent[r] = f.look
	}
}

// tell publishes an item, or only counts it if there are too many. The caller holds the lock.
func (f *Feed) tell(item web.FeedItem) bool {
	if f.told >= toldPerLook {
		f.more[item.Kind]++
		return false
	}
	f.told++
	f.Hub.Tell(feedEvent, item)
	return true
}

// Stop ends the feed. It returns when no event is being read any more, or ctx ends.
func (f *Feed) Stop(ctx context.Context) error {
	f.mu.Lock()
	f.stopped = true
	if f.events != nil {
		f.events.Close()
	}
	f.mu.Unlock()
	return ended(ctx, &f.group)
}

// shortly formats a setting in seconds.
func shortly(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " s" }

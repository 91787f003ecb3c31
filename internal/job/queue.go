package job

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync/atomic"
	"time"
)

// MainQueue is the queue of the jobs whose submit names none. It needs no declaration.
const MainQueue = "main"

// MaxQueues is how many queues may be declared.
const MaxQueues = 1000

// The errors of queues.
var (
	ErrBadQueue     = errors.New("queue is not valid")
	ErrUnknownQueue = errors.New("no such queue")
	ErrQueueInUse   = errors.New("the queue has jobs")
)

// Queue is a declared set of ready jobs. Every process reads the declared queues from Redis once a second.
type Queue struct {
	Name    string
	Limit   int       // ready jobs that were never claimed, and as many that are delayed; 0 = a quarter of the capacity
	Paused  time.Time // since when claims find none of its jobs; zero = it is not paused
	Version int64     // grows by one with each change
}

// QueueCount counts the jobs of a queue that have not ended.
type QueueCount struct{ Ready, Scheduled, Running int64 }

var queueName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,79}$`)

// Check returns ErrBadQueue if the queue cannot be declared.
func (q Queue) Check() error {
	switch {
	case !queueName.MatchString(q.Name):
		return fmt.Errorf("%w: a name has 1 to 80 of A-Z a-z 0-9 . _ : - and begins with a letter or a digit", ErrBadQueue)
	case q.Name == MainQueue:
		return fmt.Errorf("%w: main is there without a declaration", ErrBadQueue)
	case q.Limit < 0 || q.Limit > 100_000_000:
		return fmt.Errorf("%w: limit must be 0 to 100000000", ErrBadQueue)
	}
	return nil
}

// Serves says whether the process claims jobs of a queue.
func (w *WorkerInfo) Serves(queue string) bool {
	return slices.Contains(w.Queues, queue) || len(w.Queues) == 0 && queue == MainQueue
}

// LimitOf returns how many of the queue's jobs may be ready and never claimed, with a capacity of all queues.
func (q Queue) LimitOf(capacity int) int { return max(cmp.Or(q.Limit, capacity/4), 1) }

// QueueBook has the declared queues as they were last read. It is safe for concurrent use; the zero value has none.
type QueueBook struct{ all atomic.Pointer[queues] }

type queues struct {
	list []Queue // by name
	main time.Time
}

// Set replaces the queues. mainPaused says since when main is paused.
func (b *QueueBook) Set(all []Queue, mainPaused time.Time) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b Queue) int { return cmp.Compare(a.Name, b.Name) })
	b.all.Store(&queues{list: all, main: mainPaused})
}

// All returns the declared queues, by name.
func (b *QueueBook) All() []Queue {
	if all := b.all.Load(); all != nil {
		return slices.Clone(all.list)
	}
	return nil
}

// Names returns the names of the declared queues, in order.
func (b *QueueBook) Names() []string {
	all := b.all.Load()
	if all == nil {
		return nil
	}
	names := make([]string, len(all.list))
	for i := range all.list {
		names[i] = all.list[i].Name
	}
	return names
}

// Find returns a queue by its name; main is always there.
func (b *QueueBook) Find(name string) (Queue, bool) {
	all := b.all.Load()
	if name == MainQueue {
		q := Queue{Name: MainQueue}
		if all != nil {
			q.Paused = all.main
		}
		return q, true
	}
	if all == nil {
		return Queue{}, false
	}
	byName := func(q Queue, name string) int { return cmp.Compare(q.Name, name) }
	i, found := slices.BinarySearchFunc(all.list, name, byName)
	if !found {
		return Queue{}, false
	}
	return all.list[i], true
}

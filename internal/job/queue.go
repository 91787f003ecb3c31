package job

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
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
	Name  string
	Limit int      // jobs that are ready or delayed and were never claimed, of each; 0 = a quarter of the capacity
	Types []string // the job types that it takes; none = any
	// Schemas has JSON Schemas by job type: a payload that does not fit is refused at its submit.
	Schemas map[string]string
	MaxRun  time.Duration // how long an attempt of its jobs may run; 0 = what the plan says
	Push    Push          // where its jobs are posted
	LogsOff bool          // no line of a log of its jobs is stored
	Faktory bool          // Faktory clients have pushed to it, and none has removed it since: their INFO lists it
	Version int64         // grows by one with each change
}

// QueueCount counts the jobs of a queue that have not ended. Delayed counts those of Scheduled that wait for the time
// that their submit named; it is not known everywhere.
type QueueCount struct{ Ready, Scheduled, Delayed, Running int64 }

var queueName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,79}$`)

// IsQueueName says whether a queue can have this name: main, or a declared one.
func IsQueueName(name string) bool { return queueName.MatchString(name) }

// IsQueueBound says whether a key can be bound to this: to the queue of this name, or, with * at its end, to all queues
// whose name begins so.
func IsQueueBound(text string) bool { return IsQueueName(strings.TrimSuffix(text, "*")) }

// Check returns ErrBadQueue if the queue cannot be declared.
func (q Queue) Check() error {
	switch {
	case !queueName.MatchString(q.Name):
		return fmt.Errorf("%w: a name has 1 to 80 of A-Z a-z 0-9 . _ : - and begins with a letter or a digit", ErrBadQueue)
	case q.Name == MainQueue:
		return fmt.Errorf("%w: main is there without a declaration", ErrBadQueue)
	case q.Limit < 0 || q.Limit > 100_000_000:
		return fmt.Errorf("%w: limit must be 0 to 100000000", ErrBadQueue)
	case q.MaxRun != 0 && (q.MaxRun < time.Second || q.MaxRun > 24*time.Hour):
		return fmt.Errorf("%w: the maximum processing time must be 1 to 86400 s", ErrBadQueue)
	case len(q.Types) > MaxQueueTypes:
		return fmt.Errorf("%w: at most %d types", ErrBadQueue, MaxQueueTypes)
	}
	for i, typ := range q.Types {
		switch {
		case !IsTypeName(typ):
			return fmt.Errorf("%w: type %q: a job type %s", ErrBadQueue, typ, TypeNameRule)
		case slices.Contains(q.Types[:i], typ):
			return fmt.Errorf("%w: type %s is named twice", ErrBadQueue, typ)
		}
	}
	bytes := 0
	for typ, schema := range q.Schemas {
		if bytes += len(schema); !IsTypeName(typ) || !q.Takes(typ) {
			return fmt.Errorf("%w: it has a schema for %q and takes no such type", ErrBadQueue, typ)
		}
	}
	if bytes > MaxQueueSchemas {
		return fmt.Errorf("%w: its schemas have more than %d bytes", ErrBadQueue, MaxQueueSchemas)
	}
	return q.Push.Check()
}

// MaxQueueSchemas is the greatest size of a queue's schemas together, in bytes.
const MaxQueueSchemas = 16 << 10

// MaxQueueTypes is how many types a queue may name.
const MaxQueueTypes = 100

// Equal says whether two queues are the same in all fields.
func (q Queue) Equal(o Queue) bool {
	return q.Name == o.Name && q.Limit == o.Limit && slices.Equal(q.Types, o.Types) && q.MaxRun == o.MaxRun &&
		maps.Equal(q.Schemas, o.Schemas) && q.Push == o.Push && q.LogsOff == o.LogsOff &&
		q.Faktory == o.Faktory && q.Version == o.Version
}

// Takes says whether jobs of a type may be submitted into the queue.
func (q Queue) Takes(typ string) bool { return len(q.Types) == 0 || slices.Contains(q.Types, typ) }

// Serves says whether the process claims jobs of a queue.
func (w *WorkerInfo) Serves(queue string) bool {
	return slices.Contains(w.Queues, queue) || len(w.Queues) == 0 && queue == MainQueue
}

// LimitOf returns how many of the queue's jobs may be ready and never claimed, with a capacity of all queues.
func (q Queue) LimitOf(capacity int) int { return max(cmp.Or(q.Limit, capacity/4), 1) }

// QueueBook has the declared queues as they were last read. It is safe for concurrent use; the zero value has none.
type QueueBook struct{ list atomic.Pointer[[]Queue] } // by name

// Set replaces the queues.
func (b *QueueBook) Set(all []Queue) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b Queue) int { return cmp.Compare(a.Name, b.Name) })
	b.list.Store(&all)
}

// All returns the declared queues, by name.
func (b *QueueBook) All() []Queue {
	if all := b.list.Load(); all != nil {
		return slices.Clone(*all)
	}
	return nil
}

// Names returns the names of the declared queues, in order.
func (b *QueueBook) Names() []string {
	all := b.list.Load()
	if all == nil {
		return nil
	}
	names := make([]string, len(*all))
	for i := range *all {
		names[i] = (*all)[i].Name
	}
	return names
}

// Find returns a queue by its name; main is always there.
func (b *QueueBook) Find(name string) (Queue, bool) {
	if name == MainQueue {
		return Queue{Name: MainQueue}, true
	}
	all := b.list.Load()
	if all == nil {
		return Queue{}, false
	}
	byName := func(q Queue, name string) int { return cmp.Compare(q.Name, name) }
	i, found := slices.BinarySearchFunc(*all, name, byName)
	if !found {
		return Queue{}, false
	}
	return (*all)[i], true
}

// LogsOff says whether no line of a log is stored for jobs of a queue. The logs of main are always on.
func (b *QueueBook) LogsOff(name string) bool {
	q, _ := b.Find(name)
	return q.LogsOff
}

// For returns the declared queue for jobs of a type whose submit names no queue: the first that lists the type, else
// the one that has the type's name and takes it.
func (b *QueueBook) For(typ string) (Queue, bool) {
	all := b.list.Load()
	if all == nil {
		return Queue{}, false
	}
	for _, q := range *all {
		if slices.Contains(q.Types, typ) {
			return q, true
		}
	}
	q, found := b.Find(typ)
	return q, found && q.Name != MainQueue && q.Takes(typ)
}

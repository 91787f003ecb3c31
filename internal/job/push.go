package job

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
)

// Push makes a queue post its jobs to a URL: a process of tierq claims them and sends each payload there. The zero
// Push is of a queue that does not.
type Push struct {
	URL          string // "" = the queue's jobs are not posted
	Permanent4xx bool   // a 4xx answer that no repeat can change ends the job for good
	Concurrency  int    // posts at once, of each process; 0 = PushConcurrency
	// Key is the id of the API key with which the receiver ends jobs that it answered with 202; "" = none.
	Key string
}

// PushConcurrency is how many posts of a queue a process makes at once, if the queue does not say it.
// MaxPushConcurrency is the most that a queue may say.
const (
	PushConcurrency    = 10
	MaxPushConcurrency = 1000
)

// MaxPushURL is the greatest length of a URL, in bytes.
const MaxPushURL = 2048

var keyID = regexp.MustCompile(`^[a-z2-7]{16}$`)

// On says whether the queue posts its jobs.
func (p Push) On() bool { return p.URL != "" }

// AtOnce returns how many posts a process makes at once.
func (p Push) AtOnce() int { return cmp.Or(p.Concurrency, PushConcurrency) }

// Check returns ErrBadQueue if a queue cannot be declared with this Push. Whether the URL may be called is not checked.
func (p Push) Check() error {
	switch {
	case !p.On() && p != Push{}:
		return fmt.Errorf("%w: push.url is missing", ErrBadQueue)
	case len(p.URL) > MaxPushURL || strings.ContainsFunc(p.URL, func(r rune) bool { return r <= ' ' || r > '~' }):
		return fmt.Errorf("%w: push.url must be at most %d bytes of printable ASCII", ErrBadQueue, MaxPushURL)
	case p.Concurrency < 0 || p.Concurrency > MaxPushConcurrency:
		return fmt.Errorf("%w: push.concurrency must be 1 to %d", ErrBadQueue, MaxPushConcurrency)
	case p.Key != "" && !keyID.MatchString(p.Key):
		return fmt.Errorf("%w: push.key must be the id of an API key", ErrBadQueue)
	}
	return nil
}

// PushOwner is the name under which the keys are made that sign a queue's posts. No API key has an id like it, so no
// job can get a message of its own signed with them.
func PushOwner(queue string) string { return "queue:" + queue }

// PushAnswer is what a receiver answered to the post of a job.
type PushAnswer struct {
	Result []byte // JSON
	Cut    bool   // the answer was longer than a result may be; Result is its beginning
	Takes  bool   // the receiver ends the job later, with the lease that the post carried
}

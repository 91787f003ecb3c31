package client

import (
	"math/rand/v2"
	"sync"
	"time"
)

// usedKey is an Idempotency-Key under which a job was accepted.
type usedKey struct {
	once string
	key  int       // which API key it came with
	at   time.Time // when it was answered
}

// usedKeys are those that may be used for another job: while they stand for the first one, and when they have expired.
type usedKeys struct {
	mu  sync.Mutex
	all []usedKey // the oldest first
}

// mostUsed is how many keys are remembered.
const mostUsed = 20_000

func (u *usedKeys) add(k usedKey) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.all) < mostUsed {
		u.all = append(u.all, k)
	}
}

// take takes a key of a caller out: the oldest one if that was answered before a time, else a young one half of the
// time.
func (u *usedKeys) take(key int, expired time.Time, dice *rand.Rand) (once string, late bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	young := dice.IntN(2) == 0
	for i, k := range u.all {
		late := k.at.Before(expired)
		if k.key == key && (late || young) {
			if !late && time.Since(k.at) > expiring {
				continue // too near to its end to say which of the two it is
			}
			u.all = append(u.all[:i], u.all[i+1:]...)
			return k.once, late
		}
		if !late && !young {
			break
		}
	}
	return "", false
}

const (
	expiring = 30 * time.Second // so old, a key is not used again until it has expired
	swept    = 8 * time.Second  // after its time, a key is gone
)

// once is the Idempotency-Key of a new job: its own, or that of an earlier job.
func (l *Load) once(name string, key int, dice *rand.Rand) string {
	if l.KeyLife > 0 && dice.Float64() < l.Mix.Reuse {
		if again, late := l.used.take(key, time.Now().Add(-l.KeyLife-swept), dice); again != "" {
			if late {
				l.Later.Add(1)
			} else {
				l.Soon.Add(1)
			}
			return again
		}
	}
	return "once-" + name
}

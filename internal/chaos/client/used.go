package client

import (
	"math/rand/v2"
	"sync"
	"time"
)

// usedKey is an Idempotency-Key under which a job was accepted.
type usedKey struct {
	once string
	key  int       // the index of the API key that it came with
	at   time.Time // when the submit was answered
}

// usedKeys are the Idempotency-Keys that may be used for a second job, while they are valid or after they have
// expired.
type usedKeys struct {
	mu  sync.Mutex
	all []usedKey // the oldest first
}

// mostUsed is how many keys are remembered; later ones are dropped.
const mostUsed = 20_000

func (u *usedKeys) add(k usedKey) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.all) < mostUsed {
		u.all = append(u.all, k)
	}
}

// take removes a key of one API key and returns it: the caller's oldest key if that was answered before expired,
// and in half of the calls a young one otherwise. late says that the key has expired.
func (u *usedKeys) take(key int, expired time.Time, dice *rand.Rand) (once string, late bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	young := dice.IntN(2) == 0
	for i, k := range u.all {
		late := k.at.Before(expired)
		if k.key == key && (late || young) {
			if !late && time.Since(k.at) > expiring {
				continue // so near to its end that both outcomes are possible
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
	expiring = 30 * time.Second // a key of this age is not used again until it has expired
	swept    = 8 * time.Second  // how long after its time a key is surely gone
)

// once returns the Idempotency-Key of a new job: a new one, or that of an earlier job.
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

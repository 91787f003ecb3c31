package client

import (
	"math/rand/v2"
	"sync"

	"github.com/tierq/tierq/internal/job"
)

// young is how many of the latest jobs get most of the polls.
const young = 500

// known holds the jobs whose ids were answered, in the order of the answers.
type known struct {
	mu       sync.Mutex
	ids      []job.ID
	keys     map[job.ID]int // the index of the API key of each job's submit
	requeued map[job.ID]int // the highest generation for which a requeue was sent
}

func (k *known) add(id job.ID, key int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keys == nil {
		k.keys = map[job.ID]int{}
	}
	k.ids = append(k.ids, id)
	k.keys[id] = key
}

func (k *known) key(id job.ID) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.keys[id]
}

func (k *known) all() []job.ID {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]job.ID(nil), k.ids...)
}

// pick returns a random job: four times out of five one of the young ones.
func (k *known) pick(dice *rand.Rand) (job.ID, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := len(k.ids)
	if n == 0 {
		return "", false
	}
	if dice.IntN(5) > 0 {
		return k.ids[n-1-dice.IntN(min(n, young))], true
	}
	return k.ids[dice.IntN(n)], true
}

// requeue says whether the caller may requeue this generation of a job. It says yes once per generation, and only
// for generations 1 and 2.
func (k *known) requeue(id job.ID, generation int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.requeued == nil {
		k.requeued = map[job.ID]int{}
	}
	if generation > 2 || k.requeued[id] >= generation {
		return false
	}
	k.requeued[id] = generation
	return true
}

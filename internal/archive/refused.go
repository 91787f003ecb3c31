package archive

import "time"

// refusals remembers the outcomes that SQL refused for their data, so that each is tried again only after 10 s, 20
// s, 40 s, ... at most 5 min. The end of the process loses them, which costs one more try and the halving of one
// batch.
type refusals struct {
	rows map[key]refusal
}

type refusal struct {
	times int
	next  time.Time
}

const (
	refusalFloor   = 10 * time.Second
	refusalCeiling = 5 * time.Minute
	refusalLimit   = 10_000 // beyond it the refusal that is due first is forgotten
)

// add counts one more refusal of a row and returns how long the row must wait for its next try.
func (r *refusals) add(k key, now time.Time) time.Duration {
	if r.rows == nil {
		r.rows = map[key]refusal{}
	}
	seen, known := r.rows[k]
	if !known && len(r.rows) >= refusalLimit {
		r.forgetFirst()
	}
	wait := refusalCeiling
	if seen.times < 5 {
		wait = min(refusalFloor<<seen.times, refusalCeiling)
	}
	r.rows[k] = refusal{times: seen.times + 1, next: now.Add(wait)}
	return wait
}

// holds says whether a row must still wait.
func (r *refusals) holds(k key, now time.Time) bool {
	seen, known := r.rows[k]
	return known && now.Before(seen.next)
}

func (r *refusals) remove(k key) { delete(r.rows, k) }

func (r *refusals) forgetFirst() {
	var first key
	var at time.Time
	for k, seen := range r.rows {
		if at.IsZero() || seen.next.Before(at) {
			first, at = k, seen.next
		}
	}
	delete(r.rows, first)
}

package worker

import "math"

// heads is the score of the best job that each partition had left when it was last looked at: unknown if something may have become
// ready since, none if it was empty.
type heads []float64

var (
	unknown = math.Inf(-1)
	none    = math.Inf(1)
)

func newHeads(partitions int) heads {
	h := make(heads, partitions)
	for p := range h {
		h[p] = unknown
	}
	return h
}

// best is the partition to claim from, and the score up to which its jobs go before those of every other partition. With several
// unknown partitions the bound takes nothing and so only learns a head. ok is false if all are empty.
func (h heads) best() (partition int, bound float64, ok bool) {
	bound = none
	for p, head := range h {
		switch {
		case p == 0:
		case head < h[partition]:
			partition, bound = p, h[partition]
		default:
			bound = min(bound, head)
		}
	}
	return partition, bound, h[partition] != none
}

// forget marks the empty partitions as unknown: something may have become ready while nobody listened.
func (h heads) forget() {
	for p := range h {
		if h[p] == none {
			h[p] = unknown
		}
	}
}

package config

import (
	"maps"
	"slices"
)

// nearest returns the known name with the fewest edits to name, or "" if that is more than a third of its length.
// Of equals it returns the first in alphabetical order.
func nearest(name string, known map[string]bool) string {
	best, fewest := "", -1
	for _, k := range slices.Sorted(maps.Keys(known)) {
		if d := distance(name, k); fewest < 0 || d < fewest {
			best, fewest = k, d
		}
	}
	if fewest > len(name)/3 {
		return ""
	}
	return best
}

// distance returns the number of bytes to insert, delete or replace to turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

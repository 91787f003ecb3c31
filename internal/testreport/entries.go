package main

import (
	"regexp"
	"strings"
)

// entry is one point of the lists in docs/proof/FAULTS.md and docs/proof/ATTACKS.md:
//
//   - **F01**: what breaks
//   - what happens then, one point or several
//   - Proof: TestName, TestOther
//
// The points after the first are indented by two spaces. Every point may go on in further indented lines.
type entry struct {
	id, what string
	does     []string
	proof    string // without the label
	proven   bool   // it has the point with the label
}

var entryStart = regexp.MustCompile(`^- \*\*([A-Z][0-9]+)\*\*:(.*)$`)

// entriesOf returns the entries of a page, in order. label begins the point that names the proof.
func entriesOf(page, label string) []entry {
	var list []entry
	var points []string // of the last entry of list; empty = no entry is open
	end := func() {
		if len(points) == 0 {
			return
		}
		e := &list[len(list)-1]
		e.what = points[0]
		for _, point := range points[1:] {
			if proof, ok := strings.CutPrefix(point, label+":"); ok {
				e.proof, e.proven = strings.TrimSpace(proof), true
			} else if point != "" {
				e.does = append(e.does, point)
			}
		}
		points = nil
	}
	for line := range strings.Lines(page) {
		line = strings.TrimRight(line, "\r\n")
		start := entryStart.FindStringSubmatch(line)
		switch {
		case start != nil:
			end()
			list = append(list, entry{id: start[1]})
			points = []string{strings.TrimSpace(start[2])}
		case len(points) == 0:
		case strings.HasPrefix(line, "  - "):
			points = append(points, strings.TrimSpace(line[4:]))
		case strings.HasPrefix(line, "  "):
			points[len(points)-1] = strings.TrimSpace(points[len(points)-1] + " " + strings.TrimSpace(line))
		default:
			end()
		}
	}
	end()
	return list
}

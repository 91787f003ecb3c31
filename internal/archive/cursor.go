package archive

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// newest sorts above every id.
const newest = "~"

// readListCursor returns the id below which a List goes on. The cursor is the id itself.
func readListCursor(cursor string) (before string, err error) {
	if cursor == "" {
		return newest, nil
	}
	id, err := job.ParseID(cursor)
	if err != nil || string(id) != cursor {
		return "", fmt.Errorf("list jobs: %w", job.ErrBadCursor)
	}
	return cursor, nil
}

// place is the key below which a list of dead letters, newest first, goes on. A place without an id is below
// everything that was discarded at that very time.
type place struct {
	at         time.Time
	id         job.ID
	generation int
}

// earliest and latest are the limits of the SQL type DATETIME.
var (
	earliest = time.Date(1000, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
)

// String returns the cursor of a place: <microseconds>_<generation>_<id>.
func (p place) String() string {
	return fmt.Sprintf("%d_%d_%s", p.at.UnixMicro(), p.generation, p.id)
}

// readPlace parses what String wrote and refuses everything else. "" is the beginning.
func readPlace(cursor string) (place, error) {
	if cursor == "" {
		return place{at: latest}, nil
	}
	bad := fmt.Errorf("list dead letters: %w", job.ErrBadCursor)
	at, rest, _ := strings.Cut(cursor, "_")
	generation, id, _ := strings.Cut(rest, "_")
	var p place
	micros, err := strconv.ParseInt(at, 10, 64)
	if err != nil || micros < earliest.UnixMicro() || micros > latest.UnixMicro() {
		return p, bad
	}
	g, err := strconv.ParseInt(generation, 10, 32)
	if err != nil || g < 0 || g > math.MaxInt32 {
		return p, bad
	}
	p = place{at: time.UnixMicro(micros).UTC(), generation: int(g)}
	if id != "" {
		if p.id, err = job.ParseID(id); err != nil {
			return p, bad
		}
	}
	if p.String() != cursor {
		return p, bad
	}
	return p, nil
}

package queue

import "time"

// View answers what people, pages and metrics ask about a queue. A View moves no job. It writes in two places only:
// List stores the key that seals cursors where Redis has none, and Workers removes workers that have been silent for
// long. A View is safe for concurrent use.
type View struct{ *shared }

// View makes a view of the queue. All views of one queue share what Levels last read.
func (q *Queue) View() *View { return &View{q.shared} }

// Now is Redis' time as this process knows it: the last reading and what has passed since, in a cluster of the first
// partition's server that ever answered; before the first reading the host's.
func (v *View) Now() time.Time { return v.now() }

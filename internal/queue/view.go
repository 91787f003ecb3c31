package queue

import "time"

// View reads a queue for clients, pages and metrics. It moves no job. It writes in two cases only: List stores the
// key that seals cursors if Redis has none, and Workers removes workers that have been silent for a minute. A View
// is safe for concurrent use.
type View struct{ *shared }

// View makes a view of the queue. All views of one queue share the last reading of Levels.
func (q *Queue) View() *View { return &View{q.shared} }

// Now returns Redis' time as this process knows it: the last reading plus the time since then. In a cluster it is
// the clock of the first partition that has a reading. Before the first reading it is the host's time.
func (v *View) Now() time.Time { return v.now() }

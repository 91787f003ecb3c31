package queuetest

import "github.com/tierq/tierq/internal/job"

// Overdue says whether nobody has claimed the job by its time, which a test lets pass by giving the job the time 1.
func (j *ModelJob) Overdue() bool { return j.Expires == 1 && !j.Tried && alive(j) }

// Expire ends every job that nobody claimed by its time, and returns how many there were.
func (m *Model) Expire() (n int) {
	for _, j := range m.Jobs {
		if j.endOverdue() {
			n++
		}
	}
	return n
}

// endOverdue ends the job if nobody claimed it by its time, and says whether it did.
func (j *ModelJob) endOverdue() bool {
	if !j.Overdue() {
		return false
	}
	j.end(job.Expired)
	return true
}

package job

import "time"

// ExpiresAt returns the time by which a job that was never claimed must be claimed, or it ends EXPIRED; the zero time =
// there is none. A requeued job has none: an operator wants it to run.
func (j *Job) ExpiresAt() time.Time {
	if j.ExpiresMs == 0 || j.Generation > 1 || !j.FirstTriedAt.IsZero() || j.Status.Ended() {
		return time.Time{}
	}
	return time.UnixMilli(j.ExpiresMs).UTC()
}

package archive

import "github.com/tierq/tierq/internal/job"

// FirstWaiting returns the job whose outcome the next transaction takes first.
func FirstWaiting(w *Writer) job.ID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return all(&w.backlog)[0].ID
}

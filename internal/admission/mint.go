package admission

import (
	"bufio"
	"crypto/rand"
	"sync"

	"github.com/google/uuid"

	"github.com/tierq/tierq/internal/job"
)

// mint makes ids: UUIDv7, increasing within a process, with the partition in the last byte. It reads random bytes
// from the system in blocks: one system call per id would cost more than the rest.
type mint struct {
	mu     sync.Mutex
	random *bufio.Reader
}

func newMint() *mint { return &mint{random: bufio.NewReaderSize(rand.Reader, 4096)} }

// next returns an id greater than all before it.
func (m *mint) next(partition int) (job.ID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u, err := uuid.NewV7FromReader(m.random)
	if err != nil {
		return "", err
	}
	u[15] = byte(partition)
	return job.ID(u.String()), nil
}

//go:build failpoint && !linux

package failpoint

import (
	"os"
	"syscall"
	"time"
)

// standStill sends SIGSTOP to the process, and gives the signal time to arrive: a busy machine may need longer.
func standStill() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	<-time.After(100 * time.Millisecond)
}

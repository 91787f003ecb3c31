//go:build failpoint && !linux

package failpoint

import (
	"os"
	"syscall"
	"time"
)

// standStill sends SIGSTOP to the process and waits 100 ms for the signal. A busy machine may need longer.
func standStill() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	<-time.After(100 * time.Millisecond)
}

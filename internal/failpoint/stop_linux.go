//go:build failpoint

package failpoint

import (
	"os"
	"runtime"
	"syscall"
)

// standStill sends SIGSTOP to its own thread. The kernel stops that thread before the call returns, and every
// other thread with it. A signal to the process would go to its first thread, which a busy machine may wake much
// later.
func standStill() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = syscall.Tgkill(os.Getpid(), syscall.Gettid(), syscall.SIGSTOP)
}

//go:build unix

package app

import (
	"os"
	"syscall"
)

// lockFile locks a file for this process until the file is closed, or fails at once if another process has the
// lock.
func lockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// diskSpace returns how many bytes of a folder's file system are free for this process, and its whole size.
func diskSpace(dir string) (free, whole uint64, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, 0, err
	}
	return s.Bavail * uint64(s.Bsize), s.Blocks * uint64(s.Bsize), nil
}

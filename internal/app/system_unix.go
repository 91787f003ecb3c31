//go:build unix

package app

import (
	"os"
	"syscall"
)

// lockFile locks a file for this process until it is closed, or fails at once if another one has it.
func lockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// diskSpace is how many bytes a folder's file system has for this process, and how many in all.
func diskSpace(dir string) (free, whole uint64, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, 0, err
	}
	return s.Bavail * uint64(s.Bsize), s.Blocks * uint64(s.Bsize), nil
}

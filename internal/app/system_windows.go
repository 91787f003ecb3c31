package app

import (
	"os"
	"syscall"
	"unsafe"
)

// The Windows calls for which the standard library has no function.
var (
	kernel     = syscall.NewLazyDLL("kernel32.dll")
	lockFileEx = kernel.NewProc("LockFileEx")
	diskFree   = kernel.NewProc("GetDiskFreeSpaceExW")
)

// lockFile locks a file for this process until the file is closed, or fails at once if another process has the
// lock.
func lockFile(f *os.File) error {
	const failImmediately, exclusive = 1, 2
	var o syscall.Overlapped
	if done, _, err := lockFileEx.Call(f.Fd(), exclusive|failImmediately, 0, 1, 0,
		uintptr(unsafe.Pointer(&o))); done == 0 {
		return err
	}
	return nil
}

// diskSpace returns how many bytes of a folder's file system are free for this process, and its whole size.
func diskSpace(dir string) (free, whole uint64, err error) {
	name, err := syscall.UTF16PtrFromString(dir)
	if err != nil {
		return 0, 0, err
	}
	done, _, err := diskFree.Call(
		uintptr(unsafe.Pointer(name)),
		uintptr(unsafe.Pointer(&free)),
		uintptr(unsafe.Pointer(&whole)),
		0,
	)
	if done == 0 {
		return 0, 0, err
	}
	return free, whole, nil
}

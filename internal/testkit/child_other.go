//go:build !linux

package testkit

import "syscall"

// dieWithParent sets nothing, because only Linux has a parent death signal. Elsewhere a killed test process leaves
// its servers running.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

func stopped(int) bool { return true }

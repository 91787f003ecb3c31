//go:build !unix

package main

// quietSignal returns a channel that is never closed: this system has no SIGUSR1.
func quietSignal() (quiet <-chan struct{}, stop func()) { return nil, func() {} }

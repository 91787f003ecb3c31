//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// quietSignal returns a channel that is closed at the first SIGUSR1 before stop is called.
func quietSignal() (quiet <-chan struct{}, stop func()) {
	signals, heard, done := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(signals, syscall.SIGUSR1)
	go func() {
		select {
		case <-signals:
			close(heard)
		case <-done:
		}
	}()
	return heard, func() {
		signal.Stop(signals)
		close(done)
	}
}

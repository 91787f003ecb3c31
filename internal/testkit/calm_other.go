//go:build !linux

package testkit

import "testing"

// Calm delays the beginning of a test while a Linux machine is busy.
func Calm(testing.TB) {}

package testkit

import (
	"testing"
	"time"
)

// Eventually calls cond at once and then every 5 ms, growing to 50 ms, until cond returns ok. After within it
// fails the test with what and the last state. It is for conditions that send no signal, and is the only place in
// the tests that may wait by time.
func Eventually(t testing.TB, within time.Duration, what string, cond func() (ok bool, state string)) {
	t.Helper()
	state := ""
	met := every(within, func() bool {
		var ok bool
		ok, state = cond()
		return ok
	})
	if !met {
		t.Fatalf("%s: not within %v; last state: %s", what, within, state)
	}
}

// poll works as Eventually, for the kit itself. It returns the last error of try.
func poll(within time.Duration, try func() error) error {
	var err error
	every(within, func() bool {
		err = try()
		return err == nil
	})
	return err
}

// every calls try at least once, and once more after the time is over, for slow machines. It returns whether try
// succeeded.
func every(within time.Duration, try func() bool) bool {
	const first, last = 5 * time.Millisecond, 50 * time.Millisecond
	deadline := time.Now().Add(within)
	pause := first
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for !try() {
		if !time.Now().Before(deadline) {
			return false
		}
		<-ticker.C
		if pause < last {
			pause = min(pause*3/2, last)
			ticker.Reset(pause)
		}
	}
	return true
}

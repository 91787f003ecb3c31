package leak

import (
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) { Main(m) }

func TestWait(t *testing.T) {
	end := make(chan struct{})
	go wait(end)
	if left := Wait(50 * time.Millisecond); len(left) != 1 || !strings.Contains(left[0], "leak.wait") {
		t.Errorf("%d: %q", len(left), left)
	}
	close(end)
	if left := Wait(patience); len(left) != 0 {
		t.Errorf("%q", left)
	}
}

func wait(end chan struct{}) { <-end }

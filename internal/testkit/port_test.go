package testkit

import (
	"net"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// A port stays taken for other test processes, since the tests of several packages run at once.
func TestFreePortStaysTaken(t *testing.T) {
	t.Parallel()
	port := FreePort(t)
	if hold, err := net.ListenPacket("udp", local(port)); err == nil {
		_ = hold.Close()
		t.Errorf("another process could take port %d too", port)
	}
	l, err := net.Listen("tcp", local(port))
	if err != nil {
		t.Fatalf("the taker itself cannot listen: %v", err)
	}
	_ = l.Close()
}

// FreePort works while processes start: a starting process holds copies of its parent's sockets for a moment.
func TestFreePortWhileProcessesStart(t *testing.T) {
	stop := make(chan struct{})
	var starting sync.WaitGroup
	for range 8 {
		starting.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_ = exec.Command("/bin/true").Run()
				}
			}
		})
	}
	defer starting.Wait()
	defer close(stop)
	for range 100 {
		port := FreePort(t)
		l, err := net.Listen("tcp", local(port))
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		again, err := listen(local(port), time.Second)
		if err != nil {
			t.Fatalf("opened again: %v", err)
		}
		_ = again.Close()
	}
}

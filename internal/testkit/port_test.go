package testkit

import (
	"net"
	"testing"
)

// Tests of several packages run at once, each a process of its own.
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

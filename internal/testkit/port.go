package testkit

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"
)

var ports = struct {
	sync.Mutex
	given map[int]net.PacketConn
}{given: map[int]net.PacketConn{}}

// FreePort returns a 127.0.0.1 port on which no process listens and which no test process has reserved. The port
// stays reserved until this process ends, also while the server on it is down.
func FreePort(t testing.TB) int {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// TakePort is FreePort for a program that is not a test.
func TakePort() (int, error) { return freePort() }

// freePort takes ports below those that the kernel gives to outgoing connections (from 32768 on Linux). In that
// range, a client could take the port of a server that is down, and a client that dials the port of a dead server
// could even be connected to itself. To reserve the port against other test processes, freePort opens a UDP socket
// with the same number until this process ends: none of the kit's servers speaks UDP.
func freePort() (int, error) {
	const low, high = 15000, 32000
	ports.Lock()
	defer ports.Unlock()
	var last error
	for range 200 {
		port := low + rand.IntN(high-low)
		if ports.given[port] != nil {
			continue
		}
		hold, err := net.ListenPacket("udp", local(port))
		if err != nil {
			last = err
			continue
		}
		if c, err := net.DialTimeout("tcp", local(port), time.Second); err == nil {
			_ = c.Close()
			_ = hold.Close()
			last = fmt.Errorf("port %d is listened on", port)
			continue
		}
		ports.given[port] = hold
		return port, nil
	}
	return 0, fmt.Errorf("free port: none found: %w", last)
}

func local(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }

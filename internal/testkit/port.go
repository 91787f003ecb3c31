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

// FreePort returns a 127.0.0.1 port that nobody listens on and that no process of ours was given: it stays its taker's
// until that process ends, also while the server on it is down.
func FreePort(t testing.TB) int {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// TakePort is FreePort for a program that is no test.
func TakePort() (int, error) { return freePort() }

// freePort stays below the ports that the kernel gives to outgoing connections (from 32768 on Linux). From that range,
// a server that is down could find its port taken by some client when it comes back, and a client that dials the port
// of a dead server could even be connected to itself. A UDP socket with the same number, held until the process ends,
// tells the tests that run beside this one that the port is taken: no server of ours speaks UDP.
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

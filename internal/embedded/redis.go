// Package embedded has the Redis of a server without configured stores, which lives in the server's process, and keeps
// what it knows over an orderly restart.
//
//	redis.go     the server in memory, and its clock
//	entry.go     a key with its value, as a file has it
//	snapshot.go  the file of an orderly stop
//	file.go      how such a file is written and read
//
// The journal's rows bring the jobs back after any end of the process. A snapshot has what rows do not have. It is
// valid for one start, the next one after the stop that wrote it.
package embedded

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/tierq/tierq/internal/loop"
)

// Redis is a Redis in memory, reached without a port. While its Loop runs, keys expire.
type Redis struct {
	*loop.Loop
	server *miniredis.Miniredis

	mu   sync.Mutex
	aged time.Time // up to when keys have expired
}

// New makes an empty Redis.
func New() *Redis {
	r := &Redis{server: miniredis.NewMiniRedis(), aged: time.Now()}
	r.Loop = loop.New(func(context.Context) time.Duration {
		began := time.Now()
		r.age()
		// FastForward holds the server's only lock, so it may take at most a twentieth of the time.
		return max(time.Second, 20*time.Since(began))
	})
	return r
}

// age makes keys expire: miniredis expires keys only when its clock is advanced.
func (r *Redis) age() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.server.FastForward(now.Sub(r.aged))
	r.aged = now
}

// Dial connects to the server.
func (r *Redis) Dial() (net.Conn, error) { return r.server.Dial() }

// Close ends the server and its connections. What it knows stays readable for Save.
func (r *Redis) Close() { r.server.Close() }

package testkit

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// ownDatabases is the number of tests of one process that may use SharedRedisDB on the throwaway server.
const ownDatabases = 512

// handedOut remembers the database numbers of this process, so that a late goroutine of one test never writes into
// the database of another.
var handedOut numbers

type numbers struct {
	sync.Mutex
	next int          // throwaway server: all lower numbers are taken
	used map[int]bool // external server
}

func (n *numbers) forget() {
	n.Lock()
	defer n.Unlock()
	n.next = 0
}

// SharedRedisDB returns the URL of an empty database (redis://.../<number>) for this test alone, on the server of
// SharedRedis. The throwaway server gives out no number twice.
//
// On an external server SharedRedisDB takes a number whose database is empty. It reserves the database against
// other test processes by the key "testkit:reserved". When the test ends, it deletes that key and all keys that
// begin with "{tierq", and nothing else. It takes a cleaned number again only when no other is left.
func SharedRedisDB(t testing.TB) string {
	t.Helper()
	server := SharedRedis(t)
	if os.Getenv("TEST_REDIS_URL") != "" {
		return externalDB(t, server)
	}
	handedOut.Lock()
	defer handedOut.Unlock()
	if handedOut.next == ownDatabases {
		t.Fatalf("more than %d tests of one process asked for a Redis database", ownDatabases)
	}
	number := handedOut.next
	handedOut.next++
	return withNumber(t, server, number)
}

func withNumber(t testing.TB, server string, number int) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatalf("TEST_REDIS_URL: %v", err)
	}
	query := u.Query()
	query.Set("db", strconv.Itoa(number)) // overrides a number in the path
	if u.Scheme != "unix" {
		query.Del("db")
		u.Path = "/" + strconv.Itoa(number)
	}
	u.RawQuery = query.Encode()
	return u.String()
}

const reserved = "testkit:reserved"

func externalDB(t testing.TB, server string) string {
	t.Helper()
	handedOut.Lock()
	defer handedOut.Unlock()
	if handedOut.used == nil {
		handedOut.used = map[int]bool{}
	}
	count := countDatabases(t, server)
	// Other tests hold their numbers until they end, so this waits.
	var last error
	found := -1
	every(time.Minute, func() bool {
		for _, again := range []bool{false, true} {
			for number := range count {
				if handedOut.used[number] != again {
					continue
				}
				var ok bool
				if ok, last = reserve(withNumber(t, server, number)); ok {
					found = number
					return true
				}
			}
		}
		return false
	})
	if found < 0 {
		t.Fatalf("TEST_REDIS_URL: none of its %d databases is empty and free (last error: %v)", count, last)
	}
	handedOut.used[found] = true
	mine := withNumber(t, server, found)
	t.Cleanup(func() {
		if err := clean(mine); err != nil {
			t.Errorf("clean %s: %v", mine, err)
		}
	})
	return mine
}

// countDatabases returns the server's number of databases, or Redis' default, 16, where CONFIG is forbidden.
func countDatabases(t testing.TB, server string) int {
	t.Helper()
	count := 16
	err := withRedis(server, func(ctx context.Context, c *redis.Client) error {
		if n, err := strconv.Atoi(c.ConfigGet(ctx, "databases").Val()["databases"]); err == nil {
			count = n
		}
		return c.Ping(ctx).Err()
	})
	if err != nil {
		t.Fatalf("TEST_REDIS_URL: %v", err)
	}
	return count
}

// reserve takes the database if it is empty. If two processes both see it empty, SET NX decides. The key expires
// after an hour, in case the process is killed.
func reserve(mine string) (bool, error) {
	var ok bool
	err := withRedis(mine, func(ctx context.Context, c *redis.Client) error {
		size, err := c.DBSize(ctx).Result()
		if err != nil || size > 0 {
			return err
		}
		ok, err = c.SetNX(ctx, reserved, os.Getpid(), time.Hour).Result()
		return err
	})
	return ok, err
}

// clean deletes the keys that begin with "{tierq", and then the reservation.
func clean(mine string) error {
	return withRedis(mine, func(ctx context.Context, c *redis.Client) error {
		keys := c.Scan(ctx, 0, "{tierq*", 1000).Iterator()
		for keys.Next(ctx) {
			if err := c.Del(ctx, keys.Val()).Err(); err != nil {
				return fmt.Errorf("delete %s: %w", keys.Val(), err)
			}
		}
		if err := keys.Err(); err != nil {
			return fmt.Errorf("scan: %w", err)
		}
		return c.Del(ctx, reserved).Err()
	})
}

func withRedis(server string, do func(context.Context, *redis.Client) error) error {
	o, err := redis.ParseURL(server)
	if err != nil {
		return fmt.Errorf("read URL: %w", err)
	}
	o.PoolSize = 1
	c := redis.NewClient(o)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return do(ctx, c)
}

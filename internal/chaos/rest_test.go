package chaos

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/testkit"
)

// A line that may not run is in no queue, and the run is not at rest while it has jobs.
func TestSize_ParkedLine(t *testing.T) {
	t.Parallel()
	o, err := redis.ParseURL(testkit.SharedRedisDB(t))
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{rdb: redis.NewClient(o), Options: Options{Partitions: 2}}
	t.Cleanup(func() { _ = c.rdb.Close() }) // the database goes with the test
	waiting := queue.Key(1, "lines") + "waiting"
	if err := c.rdb.ZAdd(t.Context(), waiting, redis.Z{Score: 3, Member: "UNPAID:slow:main"}).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := c.size(t.Context(), "queue"); n != 1 || err != nil {
		t.Errorf("%d wait, %v", n, err)
	}
}

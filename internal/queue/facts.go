package queue

import (
	"context"
	"slices"
	"strconv"
	"time"
)

// Facts is what the server says of itself, and how it looks from here.
type Facts struct {
	Durability
	Role        string // master, slave; "" = it does not say
	UsedMemory  int64  // bytes; 0 = it does not say
	MaxMemory   int64  // 0 = no limit
	Latency     time.Duration
	ClockOffset time.Duration // Redis' clock less this host's
}

// ReadFacts asks the server what it is. Latency is the middle one of five round trips.
func (q *Queue) ReadFacts(ctx context.Context) (f Facts, err error) {
	var trips []time.Duration
	for range 5 {
		began := time.Now()
		now, err := q.redis.Main.Time(ctx).Result()
		if err != nil {
			return f, classify("facts", err)
		}
		took := time.Since(began)
		trips = append(trips, took)
		f.ClockOffset = now.Sub(began.Add(took / 2))
	}
	slices.Sort(trips)
	f.Latency = trips[len(trips)/2]
	if q.opts.Embedded {
		return f, nil
	}
	if f.Durability, err = q.ReadDurability(ctx); err != nil && !replied(err) {
		return f, err
	}
	info, err := q.redis.Main.InfoMap(ctx).Result()
	if err != nil && !replied(err) {
		return f, classify("facts", err)
	}
	f.Version, f.Role = info["Server"]["redis_version"], info["Replication"]["role"]
	f.UsedMemory, _ = strconv.ParseInt(info["Memory"]["used_memory"], 10, 64)
	f.MaxMemory, _ = strconv.ParseInt(info["Memory"]["maxmemory"], 10, 64)
	return f, nil
}

package queue

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Facts is the server's report about itself, with the latency and clock offset that this host measured.
type Facts struct {
	Durability
	Role        string // master or slave; "" = the server does not say
	UsedMemory  int64  // bytes; 0 = the server does not say
	MaxMemory   int64  // 0 = no limit
	Latency     time.Duration
	ClockOffset time.Duration // Redis' clock minus this host's
}

// ReadFacts reads the facts of the server. Latency is the median of five round trips. In a cluster, each fact is
// the worst of all servers: the longest latency, the largest clock offset, the memory of the fullest server, and
// the role of a server that is not a master.
func (v *View) ReadFacts(ctx context.Context) (f Facts, err error) {
	order, _, err := v.inOrder(ctx)
	if err != nil {
		return f, classify("facts", err)
	}
	for i, server := range order {
		one, err := v.factsOf(ctx, server)
		if err != nil {
			return f, classify("facts", err)
		}
		if i == 0 {
			f = one
			continue
		}
		f.Latency = max(f.Latency, one.Latency)
		if one.ClockOffset.Abs() > f.ClockOffset.Abs() {
			f.ClockOffset = one.ClockOffset
		}
		if one.fullness() > f.fullness() {
			f.UsedMemory, f.MaxMemory = one.UsedMemory, one.MaxMemory
		}
		if one.Role != "master" {
			f.Role = one.Role
		}
	}
	if v.opts.Embedded {
		return f, nil
	}
	version := f.Version
	if f.Durability, err = v.ReadDurability(ctx); err != nil && !replied(err) {
		return f, err
	}
	f.Version = version
	return f, nil
}

// embeddedBytes is the limit of what living jobs may keep in an embedded server; unlimitedBytes is the limit in
// servers without a maxmemory.
const (
	embeddedBytes  = 256 << 20
	unlimitedBytes = 1 << 30
)

// FitMemory sets the limit of the bytes that living jobs may keep, unless Options have one: half the maxmemory of
// the server with the least. A server that does not report its maxmemory counts as one without a limit.
func (q *Queue) FitMemory(ctx context.Context) error {
	if q.opts.LivingBytes > 0 {
		return nil
	}
	if q.opts.Embedded {
		q.livingBytes.Store(embeddedBytes)
		return nil
	}
	order, _, err := q.inOrder(ctx)
	if err != nil {
		return classify("memory", err)
	}
	var least int64 // 0 = no server has a limit
	for _, server := range order {
		info, err := server.InfoMap(ctx, "memory").Result()
		if err != nil && !replied(err) {
			return classify("memory", err)
		}
		if most, _ := strconv.ParseInt(info["Memory"]["maxmemory"], 10, 64); most > 0 && (least == 0 || most < least) {
			least = most
		}
	}
	if q.livingBytes.Store(unlimitedBytes); least > 0 {
		q.livingBytes.Store(least / 2)
	}
	return nil
}

// fullness orders servers by the used fraction of their limit. Servers without a limit come below all others,
// ordered by their used memory.
func (f Facts) fullness() float64 {
	if f.MaxMemory == 0 {
		return float64(f.UsedMemory) / (1 << 62)
	}
	return float64(f.UsedMemory) / float64(f.MaxMemory)
}

func (v *View) factsOf(ctx context.Context, server redis.UniversalClient) (f Facts, err error) {
	var trips []time.Duration
	for range 5 {
		began := time.Now()
		now, err := server.Time(ctx).Result()
		if err != nil {
			return f, err
		}
		took := time.Since(began)
		trips = append(trips, took)
		f.ClockOffset = now.Sub(began.Add(took / 2))
	}
	slices.Sort(trips)
	f.Latency = trips[len(trips)/2]
	if v.opts.Embedded {
		return f, nil
	}
	info, err := server.InfoMap(ctx).Result()
	if err != nil && !replied(err) {
		return f, err
	}
	f.Version, f.Role = info["Server"]["redis_version"], info["Replication"]["role"]
	f.UsedMemory, _ = strconv.ParseInt(info["Memory"]["used_memory"], 10, 64)
	f.MaxMemory, _ = strconv.ParseInt(info["Memory"]["maxmemory"], 10, 64)
	return f, nil
}

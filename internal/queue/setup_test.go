package queue_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
	"github.com/tierq/tierq/internal/testkit"
)

func TestSetup(t *testing.T) {
	t.Attr("proves", "F59")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		for range 2 {
			if err := e.CheckSetup(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for setting, change := range map[string]func(*queue.Options){
			fmt.Sprintf("TIERQ_PARTITIONS is 2 here and %d in Redis",
				e.Options.Partitions): func(o *queue.Options) { o.Partitions = 2 },
			"TIERQ_PRIORITY_BASE is 300000 here and 10000000000000 in Redis": func(o *queue.Options) {
				o.PriorityBase = 300_000
			},
			"TIERQ_CAPACITY is 5 here and 10000 in Redis":         func(o *queue.Options) { o.Capacity = 5 },
			"TIERQ_SCHEDULED_LIMIT is 5 here and 100000 in Redis": func(o *queue.Options) { o.ScheduledLimit = 5 },
			"TIERQ_HEARTBEAT_INTERVAL is 250 here and 500 in Redis": func(o *queue.Options) {
				o.HeartbeatInterval = 250 * time.Millisecond
			},
			"TIERQ_JOURNAL is on here and off in Redis": func(o *queue.Options) { o.Journal = true },
		} {
			o := e.Options
			change(&o)
			err := queue.New(e.Clients, e.Plans, o).CheckSetup(t.Context())
			if !errors.Is(err, job.ErrWrongSetup) || !strings.Contains(err.Error(), setting) {
				t.Errorf("%v; want %q", err, setting)
			}
			if strings.Count(err.Error(), " here and ") != 1 {
				t.Errorf("one setting differs, the error is %v", err)
			}
		}
		o := e.Options
		o.Partitions, o.Capacity = 2, 5
		if err := queue.New(e.Clients, e.Plans, o).CheckSetup(t.Context()); strings.Count(err.Error(), " here and ") != 2 {
			t.Errorf("two settings differ, the error is %v", err)
		}
		e.Redis.HSet(t.Context(), "{tierq}:system:config", "schemaVersion", 99)
		if err := e.CheckSetup(t.Context()); err == nil || !strings.Contains(err.Error(), "schema version") {
			t.Error(err)
		}
	})
}

func TestDurability(t *testing.T) {
	t.Attr("proves", "F23")
	t.Parallel()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		clients := queuetest.Connect(t, testkit.NewRedis(t, "--appendfsync", "everysec", "--save", "60 1").URL())
		e := queuetest.Open(t, clients, func(*queue.Options) {})
		d, err := e.ReadDurability(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		version := d.Version
		same(t, "durability", d, queue.Durability{
			Known: true, AOF: true, Fsync: "everysec", Save: true, Eviction: "noeviction", Version: version,
		})
		same(t, "a version", version != "", true)
		for name, value := range map[string]string{
			"maxmemory-policy": "allkeys-lru", "appendonly": "no", "save": "", "hash-max-listpack-value": "1024",
		} {
			if err := e.Redis.ConfigSet(t.Context(), name, value).Err(); err != nil {
				t.Fatal(err)
			}
		}
		if d, err = e.ReadDurability(t.Context()); err != nil {
			t.Fatal(err)
		}
		same(t, "durability", d, queue.Durability{
			Known: true, Fsync: "everysec", Eviction: "allkeys-lru", Version: version,
		})
	})
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		e := queuetest.Embedded(t, func(*queue.Options) {})
		d, err := e.ReadDurability(t.Context())
		if err == nil || d.Known || errors.Is(err, job.ErrUnavailable) || errors.Is(err, job.ErrAmbiguous) {
			t.Errorf("a server without CONFIG: %+v, %v", d, err)
		}
	})
}

func TestReadFacts(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		o := e.Options
		o.Embedded = e.Backend == "miniredis"
		f, err := queue.New(e.Clients, e.Plans, o).View().ReadFacts(t.Context())
		if err != nil || f.Latency <= 0 || f.ClockOffset.Abs() > time.Second {
			t.Errorf("%+v, %v", f, err)
		}
		if !o.Embedded && (f.Role != "master" || f.Version == "" || f.UsedMemory == 0 || f.Eviction != "noeviction") {
			t.Errorf("%+v", f)
		}
	})
}

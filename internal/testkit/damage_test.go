package testkit

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"
)

// Each proxy counts the damage that it does without a rule: Delay, Blackhole, Weather.
func TestProxyDamage(t *testing.T) {
	t.Run("redis", func(t *testing.T) {
		ctx := context.Background()
		direct := client(t, SharedRedisDB(t))
		p, err := StartProxy(direct.Options().Addr)
		must(t, err)
		t.Cleanup(p.Close)
		through := client(t, p.URL())

		p.HalveReply(IsCommand("ECHO"))
		if got, err := through.Echo(ctx, "a long text").Result(); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("half a reply was read as %q, %v", got, err)
		}
		if d := p.Dropped(); len(d) != 1 || !d[0].Executed || d[0].Line() != "$11" {
			t.Errorf("dropped %+v", d)
		}

		p.DropReply(IsCommand("ECHO"))
		p.Disarm()
		if got, err := through.Echo(ctx, "x").Result(); got != "x" || p.Armed() != 0 {
			t.Errorf("after Disarm: %q, %v, %d rules", got, err, p.Armed())
		}

		before := p.Suffered()
		p.Delay(50 * time.Millisecond)
		began := time.Now()
		must(t, through.Ping(ctx).Err())
		if took := time.Since(began); took < 50*time.Millisecond || p.Suffered() == before {
			t.Errorf("a delayed reply took %s, %d suffered", took, p.Suffered()-before)
		}
		p.Delay(0)

		conn := through.Conn()
		defer conn.Close()
		must(t, conn.Ping(ctx).Err())
		p.Cut()
		if err := conn.Ping(ctx).Err(); err == nil {
			t.Error("a cut connection answered")
		}
	})
}

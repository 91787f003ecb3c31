package testkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// behind returns a client of this RESP version through a proxy, and a second client without the proxy.
func behind(t *testing.T, protocol int) (p *Proxy, through, past *redis.Client) {
	t.Helper()
	server := SharedRedisDB(t)
	o, err := redis.ParseURL(server)
	must(t, err)
	p = NewProxy(t, o.Addr)
	o.Addr, o.MaxRetries, o.Protocol, o.PoolSize = p.Addr(), -1, protocol, 1
	o.ReadTimeout = 300 * time.Millisecond
	through = redis.NewClient(o)
	t.Cleanup(func() { _ = through.Close() })
	return p, through, client(t, server)
}

func TestProxy(t *testing.T) {
	t.Parallel()
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprintf("redis/RESP%d", protocol), func(t *testing.T) {
			t.Parallel()
			t.Run("DropReply", func(t *testing.T) { t.Parallel(); dropReply(t, protocol) })
			t.Run("DropReply in a pipeline", func(t *testing.T) { t.Parallel(); dropReplyInPipeline(t, protocol) })
			t.Run("DropReply of a script", func(t *testing.T) { t.Parallel(); dropReplyOfScript(t, protocol) })
			t.Run("DropReply after the client left", func(t *testing.T) { t.Parallel(); dropReplyClientGone(t, protocol) })
			t.Run("DropRequest", func(t *testing.T) { t.Parallel(); dropRequest(t, protocol) })
			t.Run("Blackhole", func(t *testing.T) { t.Parallel(); blackhole(t, protocol) })
			t.Run("Delay", func(t *testing.T) { t.Parallel(); delay(t, protocol) })
			t.Run("all kinds of replies", func(t *testing.T) { t.Parallel(); allReplies(t, protocol) })
		})
	}
}

func dropReply(t *testing.T, protocol int) {
	ctx := context.Background()
	p, through, past := behind(t, protocol)
	p.DropReply(IsCommand("incr"))
	must(t, through.Set(ctx, "other", "1", 0).Err()) // does not match
	if err := through.Incr(ctx, "n").Err(); !errors.Is(err, io.EOF) {
		t.Fatalf("the client got %v, want EOF", err)
	}
	if got := past.Get(ctx, "n").Val(); got != "1" {
		t.Fatalf("n = %q: the command was not executed", got)
	}
	d := p.Dropped()
	if len(d) != 1 || !d[0].Executed || d[0].Line() != ":1" || !slices.Equal(d[0].Args, []string{"incr", "n"}) {
		t.Fatalf("the evidence: %+v", d)
	}
	// A rule works only once.
	if n, err := through.Incr(ctx, "n").Result(); err != nil || n != 2 {
		t.Fatalf("the next one: %d, %v", n, err)
	}
}

func dropReplyInPipeline(t *testing.T, protocol int) {
	ctx := context.Background()
	p, through, past := behind(t, protocol)
	p.DropReply(func(args []string) bool { return slices.Equal(args, []string{"incr", "b"}) })
	p.DropReply(func(args []string) bool { return slices.Equal(args, []string{"incr", "d"}) })
	o := through.Options()
	conn, err := net.Dial("tcp", o.Addr)
	must(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "select %d\r\nincr a\r\nincr b\r\nincr c\r\nincr d\r\n", o.DB)
	must(t, err)
	// The replies before the lost one arrive; those after it do not.
	if got, err := io.ReadAll(conn); err != nil || string(got) != "+OK\r\n:1\r\n" {
		t.Errorf("the client got %q, %v", got, err)
	}
	if d := p.Dropped(); len(d) != 2 || d[1].Args[1] != "d" || !d[1].Executed {
		t.Errorf("the evidence: %+v", d)
	}
	if got := past.Exists(ctx, "a", "b", "c", "d").Val(); got != 4 {
		t.Errorf("%d of 4 were executed", got)
	}
}

func dropReplyOfScript(t *testing.T, protocol int) {
	ctx := context.Background()
	p, through, past := behind(t, protocol)
	// The script's text is unique, so that the server does not know it at first.
	src := "-- count: one more\nreturn redis.call('INCR', KEYS[1]) --" + t.Name()
	script := redis.NewScript(src)
	if script.Hash() != ScriptSHA(src) {
		t.Fatalf("ScriptSHA = %s, the client says %s", ScriptSHA(src), script.Hash())
	}
	p.DropReply(IsScript("return 1"))
	p.DropReply(IsScript(src))
	// The server answers NOSCRIPT to the EVALSHA; the proxy drops the reply to the EVAL that follows.
	if err := script.Run(ctx, through, []string{"n"}).Err(); !errors.Is(err, io.EOF) {
		t.Fatalf("the client got %v, want EOF", err)
	}
	d := p.Dropped()
	if len(d) != 1 || !strings.EqualFold(d[0].Args[0], "eval") || d[0].Line() != ":1" || p.Armed() != 1 {
		t.Fatalf("the evidence: %+v, %d rules left", d, p.Armed())
	}
	p.DropReply(IsScript(src))
	if err := script.Run(ctx, through, []string{"n"}).Err(); !errors.Is(err, io.EOF) {
		t.Fatalf("the client got %v, want EOF", err)
	}
	if d := p.Dropped(); len(d) != 2 || !strings.EqualFold(d[1].Args[0], "evalsha") || d[1].Line() != ":2" {
		t.Fatalf("the evidence: %+v", d)
	}
	if got := past.Get(ctx, "n").Val(); got != "2" {
		t.Fatalf("n = %q, want 2", got)
	}
}

func dropReplyClientGone(t *testing.T, protocol int) {
	ctx := context.Background()
	p, through, past := behind(t, protocol)
	p.DropReply(IsCommand("blpop"))
	o := through.Options()
	conn, err := net.Dial("tcp", o.Addr)
	must(t, err)
	_, err = fmt.Fprintf(conn, "select %d\r\nblpop list 10\r\n", o.DB)
	must(t, err)
	Eventually(t, 5*time.Second, "the BLPOP at the proxy", func() (bool, string) {
		return p.Armed() == 0, fmt.Sprint("rules left: ", p.Armed())
	})
	must(t, conn.Close())
	must(t, past.RPush(ctx, "list", "token").Err())
	Eventually(t, 5*time.Second, "the evidence", func() (bool, string) {
		d := p.Dropped()
		return len(d) == 1 && d[0].Line() == "*2", fmt.Sprintf("%+v", d)
	})
}

func dropRequest(t *testing.T, protocol int) {
	ctx := context.Background()
	p, through, past := behind(t, protocol)
	p.DropRequest(IsCommand("INCR"))
	if err := through.Incr(ctx, "n").Err(); !errors.Is(err, io.EOF) {
		t.Fatalf("the client got %v, want EOF", err)
	}
	if n := past.Exists(ctx, "n").Val(); n != 0 {
		t.Fatal("the command was executed")
	}
	if d := p.Dropped(); len(d) != 1 || d[0].Executed || d[0].Reply != nil || d[0].Args[1] != "n" {
		t.Fatalf("the evidence: %+v", d)
	}
	must(t, through.Incr(ctx, "n").Err())
}

func blackhole(t *testing.T, protocol int) {
	ctx := context.Background()
	p, through, past := behind(t, protocol)
	must(t, through.Ping(ctx).Err())
	p.Blackhole(true)
	p.DropReply(IsCommand("INCR")) // a swallowed request matches no rule
	if err := through.Incr(ctx, "n").Err(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the client got %v, want a timeout", err)
	}
	if n := past.Exists(ctx, "n").Val(); n != 0 {
		t.Fatal("the command was executed")
	}
	if p.Armed() != 1 || len(p.Dropped()) != 0 {
		t.Fatalf("%d rules left, evidence %+v", p.Armed(), p.Dropped())
	}
	p.Blackhole(false)
	if err := through.Incr(ctx, "n").Err(); !errors.Is(err, io.EOF) || past.Get(ctx, "n").Val() != "1" {
		t.Fatalf("after the blackhole: %v, n = %s", err, past.Get(ctx, "n").Val())
	}
}

func delay(t *testing.T, protocol int) {
	ctx := context.Background()
	p, through, _ := behind(t, protocol)
	must(t, through.Ping(ctx).Err())
	const d = 100 * time.Millisecond
	p.Delay(d)
	begin := time.Now()
	pipe := through.Pipeline()
	for range 50 {
		pipe.Incr(ctx, "n")
	}
	_, err := pipe.Exec(ctx)
	must(t, err)
	// A pipeline pays the latency once. If each reply paid it, the pipeline would take five seconds.
	if took := time.Since(begin); took < d || took > 4*time.Second {
		t.Errorf("took %v, want little over %v", took, d)
	}
}

func allReplies(t *testing.T, protocol int) {
	ctx := context.Background()
	_, through, _ := behind(t, protocol)
	big := strings.Repeat("x\r\n", 100_000)
	must(t, through.Set(ctx, "big", big, 0).Err())
	if got := through.Get(ctx, "big").Val(); got != big {
		t.Errorf("%d bytes, want %d", len(got), len(big))
	}
	if err := through.Get(ctx, "none").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("nothing: %v", err)
	}
	must(t, through.HSet(ctx, "h", "a", "1", "b", "2").Err())
	if got := through.HGetAll(ctx, "h").Val(); len(got) != 2 || got["b"] != "2" {
		t.Errorf("a map: %v", got)
	}
	must(t, through.SAdd(ctx, "s", "x", "y").Err())
	if got := through.SMembersMap(ctx, "s").Val(); len(got) != 2 {
		t.Errorf("a set: %v", got)
	}
	must(t, through.ZAdd(ctx, "z", redis.Z{Score: 1.5, Member: "m"}).Err())
	if got := through.ZScore(ctx, "z", "m").Val(); got != 1.5 {
		t.Errorf("a double: %v", got)
	}
	nested, err := through.Eval(ctx, "return {1, 'two', {3, {}}, false}", nil).Slice()
	if err != nil || fmt.Sprint(nested) != "[1 two [3 []] <nil>]" {
		t.Errorf("nested: %v, %v", nested, err)
	}
	if err := through.Incr(ctx, "big").Err(); err == nil || !strings.HasPrefix(err.Error(), "ERR") {
		t.Errorf("an error: %v", err)
	}
	if err := through.LPop(ctx, "empty").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("an empty list: %v", err)
	}
}

package queue_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
	"github.com/tierq/tierq/internal/testkit"
	"github.com/tierq/tierq/lua"
)

// reply is an error that a server sent as its reply.
type reply string

func (r reply) Error() string { return string(r) }
func (r reply) RedisError()   {}

func TestClassify(t *testing.T) {
	t.Parallel()
	neither := errors.New("neither")
	for name, c := range map[string]struct {
		err  error
		want error
	}{
		"connection refused":    {&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, job.ErrUnavailable},
		"dial timed out":        {&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, job.ErrUnavailable},
		"pool timed out":        {redis.ErrPoolTimeout, job.ErrUnavailable},
		"client closed":         {redis.ErrClosed, job.ErrUnavailable},
		"LOADING":               {reply("LOADING Redis is loading the dataset in memory"), job.ErrUnavailable},
		"a transaction refused": {reply("EXECABORT Transaction discarded because of previous errors."), job.ErrUnavailable},
		"READONLY":              {reply("READONLY You can't write against a read only replica."), job.ErrUnavailable},
		"READONLY in a script": {reply("READONLY You can't write against a read only replica. script: 5f, on " +
			"@user_script:9."), job.ErrUnavailable},
		"OOM": {
			reply("OOM command not allowed when used memory > 'maxmemory'. script: 5f, on @user_script:59."),
			errors.Join(job.ErrUnavailable, job.ErrNoMemory),
		},
		"OOM, told by its name": {
			reply("OOM command not allowed when used memory > 'maxmemory'."),
			errors.Join(job.ErrUnavailable, job.ErrNoMemory),
		},
		"MISCONF":               {reply("MISCONF Redis is configured to save RDB snapshots"), job.ErrUnavailable},
		"CLUSTERDOWN":           {reply("CLUSTERDOWN Hash slot not served"), job.ErrUnavailable},
		"TRYAGAIN":              {reply("TRYAGAIN Multiple keys request during rehashing of slot"), job.ErrUnavailable},
		"MOVED, too often":      {reply("MOVED 42 127.0.0.1:7001"), job.ErrUnavailable},
		"ASK, too often":        {reply("ASK 42 127.0.0.1:7001"), job.ErrUnavailable},
		"a cluster of nobody":   {errors.New("redis: cluster has no nodes"), job.ErrUnavailable},
		"MASTERDOWN":            {reply("MASTERDOWN Link with MASTER is down"), job.ErrUnavailable},
		"BUSY":                  {reply("BUSY Redis is busy running a script."), job.ErrUnavailable},
		"NOAUTH":                {reply("NOAUTH Authentication required."), job.ErrUnavailable},
		"maxclients":            {reply("ERR max number of clients reached"), job.ErrUnavailable},
		"EOF":                   {io.EOF, job.ErrAmbiguous},
		"torn reply":            {io.ErrUnexpectedEOF, job.ErrAmbiguous},
		"reset":                 {&net.OpError{Op: "read", Err: syscall.ECONNRESET}, job.ErrAmbiguous},
		"read timed out":        {&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, job.ErrAmbiguous},
		"deadline":              {context.DeadlineExceeded, job.ErrAmbiguous},
		"the caller hung up":    {context.Canceled, neither},
		"a bug in a script":     {reply("ERR user_script:12: attempt to index a nil value"), neither},
		"a key of another type": {reply("WRONGTYPE Operation against a key holding the wrong kind of value"), neither},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := queue.Classify("claim", c.err)
			for _, sentinel := range []error{job.ErrUnavailable, job.ErrAmbiguous, job.ErrNoMemory} {
				if errors.Is(got, sentinel) != errors.Is(c.want, sentinel) {
					t.Errorf("%v: is %v", got, sentinel)
				}
			}
			if got.Error()[:6] != "claim:" {
				t.Errorf("%q does not begin with what was tried", got)
			}
		})
	}
}

// A real server's replies and failures are classified in the same way.
func TestErrorsOfARealServer(t *testing.T) {
	t.Parallel()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		r := testkit.NewRedis(t)
		proxy := testkit.NewProxy(t, r.Addr())
		clients, err := queue.Connect(proxy.URL())
		if err != nil {
			t.Fatal(err)
		}
		direct, err := queue.Connect(r.URL())
		if err != nil {
			t.Fatal(err)
		}
		defer direct.Close()
		e := queuetest.Open(t, clients, func(*queue.Options) {})
		e.Broken(t) // the server is gone at the end
		submit := func() error {
			_, err := e.Words(t.Context(), 0, []job.Submission{queuetest.Job(job.Paid)})
			return err
		}
		claim := func() error {
			_, err := e.Claim(t.Context(), 0, job.ClaimRequest{Number: 1, Max: 1, Bound: math.Inf(1)})
			return err
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		is := func(what string, got, want error) {
			t.Helper()
			if !errors.Is(got, want) {
				t.Errorf("%s: %v", what, got)
			}
		}
		must(submit())
		must(direct.Main.SlaveOf(t.Context(), "127.0.0.1", "1").Err())
		is("replica", submit(), job.ErrUnavailable) // F24
		is("replica, probe", e.Probe(t.Context()), job.ErrUnavailable)
		must(direct.Main.SlaveOf(t.Context(), "NO", "ONE").Err())
		must(submit())

		proxy.DropReply(testkit.IsScript(lua.Script("submit")))
		is("reply lost", submit(), job.ErrAmbiguous)
		must(claim())

		must(r.Freeze())
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err = e.Words(short, 0, []job.Submission{queuetest.Job(job.Paid)})
		cancel()
		is("frozen", err, job.ErrAmbiguous)
		must(r.Thaw())

		must(direct.Main.Close())
		is("closed client", func() error {
			_, err := queue.New(direct, e.Plans, e.Options).Promote(t.Context(), 0)
			return err
		}(), job.ErrUnavailable)
		must(r.Kill())
		gone, err := queue.Connect(r.URL())
		must(err)
		defer gone.Close()
		_, err = queue.New(gone, e.Plans, e.Options).Promote(t.Context(), 0)
		is("nobody listens", err, job.ErrUnavailable)
	})
}

package queue_test

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
	"github.com/tierq/tierq/internal/testkit"
	"github.com/tierq/tierq/lua"
)

// slow is a rate that frees nothing while a test runs: one request in 1000 s.
const slow = 0.001

func rates(t testing.TB, e *queuetest.Env, asks ...job.RateAsk) []job.RateAnswer {
	t.Helper()
	got, err := e.Rates(t.Context(), e.RatePartition(asks[0].Bucket), asks)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func rateKeys(t testing.TB, e *queuetest.Env) []string {
	t.Helper()
	return e.AllKeys(t, "*:rate:*")
}

// emptier makes a bucket emptier by d, as the passing of time would.
func emptier(t testing.TB, e *queuetest.Env, key string, d time.Duration) {
	t.Helper()
	at, err := e.Redis.Get(t.Context(), key).Int64()
	if errors.Is(err, redis.Nil) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Redis.Set(t.Context(), key, at-d.Microseconds(), redis.KeepTTL).Err(); err != nil {
		t.Fatal(err)
	}
}

// near compares a duration with the expected one, less the time that the test took.
func near(t testing.TB, what string, got, want time.Duration) {
	t.Helper()
	if got > want || got < want-time.Minute {
		t.Errorf("%s is %s, want %s or a little less", what, got, want)
	}
}

func TestRate(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		one := job.RateAsk{Bucket: "key:ann", Rate: slow, Burst: 3, N: 1}
		two, four, none := one, one, one
		two.N, four.N, none.N = 2, 4, 0
		other := one
		other.Bucket = "key:bob"
		same(t, "an ask for nothing", rates(t, e, none)[0], job.RateAnswer{OK: true, Remaining: 3})
		same(t, "keys of what was never asked for", len(rateKeys(t, e)), 0)

		got := rates(t, e, one, two, one, other, four, none) // one after the other
		for i, want := range []job.RateAnswer{{OK: true, Remaining: 2}, {OK: true}, {}, {OK: true, Remaining: 2},
			{RetryIn: job.Never}, {OK: true}} {
			same(t, fmt.Sprintf("answer %d", i), got[i].OK, want.OK)
			same(t, fmt.Sprintf("remaining %d", i), got[i].Remaining, want.Remaining)
			same(t, fmt.Sprintf("never %d", i), got[i].RetryIn == job.Never, want.RetryIn == job.Never)
		}
		near(t, "the third's wait", got[2].RetryIn, 1000*time.Second)
		near(t, "the third's reset", got[2].Reset, 3000*time.Second)
		near(t, "bob's reset", got[3].Reset, 1000*time.Second)

		again := rates(t, e, two)[0] // in a call of its own it is the same bucket
		same(t, "again", again.OK, false)
		near(t, "its wait", again.RetryIn, 2000*time.Second)
		for _, key := range rateKeys(t, e) {
			if ttl := e.Redis.PTTL(t.Context(), key).Val(); ttl <= 0 || ttl > 3000*time.Second {
				t.Errorf("%s lives for %s", key, ttl)
			}
		}
		e.Elapse(t, 3001*time.Second)
		same(t, "keys of buckets that are empty", len(rateKeys(t, e)), 0)
	})
}

// A bucket's name may contain a user's text; its key never does.
func TestRateKeysHoldNoUserText(t *testing.T) {
	t.Attr("proves", "A58")
	t.Parallel()
	queuetest.EachWith(t, func(o *queue.Options) { o.Partitions = 4 }, func(t *testing.T, e *queuetest.Env) {
		seen := map[int]bool{}
		for i := range 40 {
			bucket := fmt.Sprintf("{x}*\r\nSET a b\r\n%d%s", i, strings.Repeat("y", i*1000))
			seen[e.RatePartition(bucket)] = true
			same(t, "passes", rates(t, e, job.RateAsk{Bucket: bucket, Rate: slow, Burst: 1, N: 1})[0].OK, true)
		}
		keys := rateKeys(t, e)
		same(t, "keys", len(keys), 40)
		same(t, "partitions", len(seen), 4)
		for _, key := range keys {
			if !regexp.MustCompile(`^\{tierq:[0-3]\}:rate:[0-9a-f]{32}$`).MatchString(key) {
				t.Errorf("key %q", key)
			}
		}
	})
}

// bucketModel is a plain leaky bucket: it holds requests, which leak out over time.
type bucketModel struct{ held float64 }

func (m *bucketModel) ask(a job.RateAsk) job.RateAnswer {
	m.held = min(m.held, float64(a.Burst))
	answer := job.RateAnswer{OK: m.held+float64(a.N) <= float64(a.Burst)}
	if answer.OK {
		m.held += float64(a.N)
	} else {
		answer.RetryIn = time.Duration((m.held + float64(a.N) - float64(a.Burst)) * 1000 * float64(time.Second))
	}
	if a.N > a.Burst {
		answer.RetryIn = job.Never
	}
	answer.Remaining = int(float64(a.Burst) - m.held)
	answer.Reset = time.Duration(m.held * 1000 * float64(time.Second))
	return answer
}

func TestRateIsALeakyBucket(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		checks := 0
		rapid.Check(t, func(rt *rapid.T) {
			checks++
			var model bucketModel
			ask := job.RateAsk{Bucket: fmt.Sprint("bucket ", checks), Rate: slow, Burst: rapid.IntRange(1, 5).Draw(rt, "burst")}
			for range rapid.IntRange(1, 12).Draw(rt, "steps") {
				if quarters := rapid.IntRange(-6, 6).Draw(rt, "quarters"); quarters > 0 {
					emptier(t, e, queue.RateKey(e.RatePartition(ask.Bucket), ask.Bucket), time.Duration(quarters)*250*time.Second)
					model.held = max(model.held-float64(quarters)/4, 0)
					continue
				}
				var asks []job.RateAsk
				for _, n := range rapid.SliceOfN(rapid.IntRange(0, 6), 1, 4).Draw(rt, "ns") {
					ask.N = n
					asks = append(asks, ask)
				}
				for i, got := range rates(t, e, asks...) {
					want := model.ask(asks[i])
					off := max(want.Reset-got.Reset, want.RetryIn-got.RetryIn)
					if got.OK != want.OK || got.Remaining != want.Remaining || (got.RetryIn == 0) != (want.RetryIn == 0) || off < 0 ||
						off > 100*time.Second {
						rt.Fatalf("%d of %+v: %+v, want %+v", i, asks[i], got, want)
					}
				}
			}
		})
	})
}

// A bucket that Redis filled while its clock was an hour ahead, or that a larger rate filled, is full, and empties from
// the next request on, refused or not.
func TestRateAfterAClockAhead(t *testing.T) {
	t.Attr("proves", "F34")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		one := job.RateAsk{Bucket: "x", Rate: 2, Burst: 2, N: 1}
		key := queue.RateKey(e.RatePartition("x"), "x")
		ahead := strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(), 10)
		if err := e.Redis.Set(t.Context(), key, ahead, 2*time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
		look := one
		look.N = 0
		same(t, "a look at a full bucket", rates(t, e, look)[0].Remaining, 0)
		same(t, "of the full bucket", rates(t, e, one)[0].OK, false)
		testkit.Eventually(t, 5*time.Second, "the bucket has room", func() (bool, string) {
			got := rates(t, e, one)[0]
			return got.OK, fmt.Sprintf("%+v", got)
		})
		if ttl := e.Redis.PTTL(t.Context(), key).Val(); ttl > time.Second {
			t.Errorf("its key lives for %s", ttl)
		}
	})
}

// A value of a clock that was set back, or of a larger bucket, counts as a full bucket. An unreadable value counts
// as an empty one.
func TestRateAfterStrangeValues(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		one := job.RateAsk{Bucket: "x", Rate: slow, Burst: 3, N: 1}
		key := queue.RateKey(e.RatePartition("x"), "x")
		in := func(d time.Duration) string { return strconv.FormatInt(time.Now().Add(d).UnixMicro(), 10) }
		for value, want := range map[string]struct {
			ok   bool
			wait time.Duration
		}{
			in(1e6 * time.Second): {false, 1000 * time.Second},
			in(-time.Hour):        {true, 0},
			"nonsense":            {true, 0},
			"1e300":               {true, 0},
			"nan":                 {true, 0},
			"":                    {true, 0},
		} {
			if err := e.Redis.Set(t.Context(), key, value, time.Hour).Err(); err != nil {
				t.Fatal(err)
			}
			got := rates(t, e, one)[0]
			if got.OK != want.ok {
				t.Errorf("after %q: %+v", value, got)
			}
			near(t, "the wait", got.RetryIn, want.wait)
		}
		// After a change of the rate, the bucket counts by the new rate.
		if err := e.Redis.Del(t.Context(), key).Err(); err != nil {
			t.Fatal(err)
		}
		rates(t, e, one, one, one)
		faster := job.RateAsk{Bucket: "x", Rate: 1, Burst: 2, N: 1}
		got := rates(t, e, faster)[0]
		same(t, "faster, at once", got.OK, false)
		near(t, "faster, the wait", got.RetryIn, time.Second)
		emptier(t, e, key, 3000*time.Second)
		same(t, "faster, later", rates(t, e, faster)[0].OK, true)
	})
}

func TestRateExtremes(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		for i, a := range []job.RateAsk{
			{Rate: 1e6, Burst: 1_000_000, N: 1_000_000}, {Rate: 1e6, Burst: 1, N: 1}, {Rate: 777_777, Burst: 3, N: 3},
			{Rate: 3, Burst: 1000, N: 1000},
			{Rate: 1e-300, Burst: 1_000_000, N: 1_000_000}, {Rate: 1.0 / (7 * 24 * 3600), Burst: 1, N: 1},
			{Rate: math.Inf(1), Burst: 1, N: 1},
		} {
			a.Bucket = fmt.Sprint(i)
			got := rates(t, e, a)[0]
			if !got.OK || got.Remaining != 0 && a.Rate < 1000 || got.Reset <= 0 {
				t.Errorf("%+v: %+v", a, got)
			}
		}
		for _, a := range []job.RateAsk{{Rate: 0, Burst: 1}, {Rate: -1, Burst: 1}, {Rate: math.NaN(), Burst: 1},
			{Rate: 1, Burst: 0}, {Rate: 1, Burst: 1, N: -1}} {
			if got, err := e.Rates(t.Context(), 0, []job.RateAsk{a}); err == nil {
				t.Errorf("%+v: %+v", a, got)
			}
		}
	})
}

// The audit knows the keys of buckets, and gives them a time to live if they have none.
func TestRateKeysAge(t *testing.T) {
	t.Attr("proves", "F53")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		rates(t, e, job.RateAsk{Bucket: "x", Rate: slow, Burst: 3, N: 1})
		key := queue.RateKey(e.RatePartition("x"), "x")
		if err := e.Redis.Persist(t.Context(), key).Err(); err != nil {
			t.Fatal(err)
		}
		e.Broken(t, "stays for ever")
		same(t, "findings", kinds(pass(t, e.Queue, unasked)), "REPAIRED ttl")
		if wrong := e.Audit(t); len(wrong) > 0 {
			t.Error(wrong)
		}
	})
}

// Rate is the only script that may not be sent twice: a lost reply is reported as ambiguous, and the counted
// requests stay counted.
func TestReplyLostRate(t *testing.T) {
	t.Attr("proves", "F27")
	t.Parallel()
	target, err := url.Parse(testkit.SharedRedisDB(t))
	if err != nil {
		t.Fatal(err)
	}
	proxy := testkit.NewProxy(t, target.Host)
	target.Host = proxy.Addr()
	clients, err := queue.Connect(target.String())
	if err != nil {
		t.Fatal(err)
	}
	e := queuetest.Open(t, clients, func(*queue.Options) {})
	one := job.RateAsk{Bucket: "x", Rate: slow, Burst: 3, N: 1}
	proxy.DropReply(testkit.IsScript(lua.Script("rate")))
	if _, err := e.Rates(t.Context(), 0, []job.RateAsk{one}); !errors.Is(err, job.ErrAmbiguous) {
		t.Fatalf("the answer was lost, the error is %v", err)
	}
	if dropped := proxy.Dropped(); len(dropped) != 1 || !dropped[0].Executed {
		t.Fatalf("the fault did not land: %+v", dropped)
	}
	same(t, "remaining", rates(t, e, one)[0].Remaining, 1)
}

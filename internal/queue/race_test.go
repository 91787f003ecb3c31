package queue_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
	"github.com/tierq/tierq/internal/testkit"
)

// Three watches look at one expired job again and again, around the moment at which it may be reclaimed, and its
// worker's heartbeat comes within 10 ms of that moment. The job is either kept or reclaimed once. Over all rounds
// both happen.
func TestReclaimRacesHeartbeat(t *testing.T) {
	t.Attr("proves", "F26")
	t.Parallel()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		clients := queuetest.Connect(t, testkit.SharedRedisDB(t))
		const rounds = racyRounds
		e := queuetest.Open(t, clients, func(o *queue.Options) { o.Retention = time.Second }) // ended jobs do not pile up
		var watching []*queue.Queue
		for i := range 3 {
			watching = append(watching, e.Process(fmt.Sprint("watch-", i)))
		}
		kept, tried, takers := 0, 0, make([]int, len(watching))
		// On a busy machine the watches may reclaim all jobs, or none: then more rounds follow, with earlier or later
		// heartbeats.
		landed := func(round int) bool { return kept > 0 && kept < round }
		for round := 0; round < rounds || !landed(round) && round < 5*rounds; round++ {
			tried = round + 1
			id := e.Put(t, job.Paid)
			place := e.Snapshot(t).Sets["queue"][string(id)]
			l := e.Take(t, 1)[0]
			e.Expire(t, job.Crashed, l.ID)
			same(t, "first look", e.Look(t, job.Crashed)[l.ID], job.Suspect)
			e.Age(t, "suspects:crashed", queue.Patience-40*time.Millisecond)
			seen, err := e.Redis.ZScore(t.Context(), "{tierq:0}:suspects:crashed", string(l.ID)).Result()
			if err != nil {
				t.Fatal(err)
			}
			due := time.Duration(int64(seen)-e.Now(t))*time.Millisecond + queue.Patience

			<-time.After(due - 12*time.Millisecond)
			var beaten atomic.Bool
			var all sync.WaitGroup
			words := make([][]job.Word, len(watching)) // each watch's words about the job, except SUSPECT
			for i, w := range watching {
				all.Go(func() {
					for last := false; !last; { // the last look begins after the heartbeat was answered
						last = beaten.Load()
						found, err := w.Reclaim(t.Context(), 0, job.Crashed, 0)
						if err != nil {
							t.Error(err)
							return
						}
						for _, f := range found {
							if f.Word != job.Suspect {
								words[i] = append(words[i], f.Word)
							}
						}
					}
				})
			}
			switch pause := 2*time.Millisecond + rand.N(20*time.Millisecond); {
			case round >= rounds/2 && kept == 0:
				<-time.After(pause / 20)
			case round >= rounds/2 && kept == round:
				<-time.After(5 * pause)
			default:
				<-time.After(pause)
			}
			said, err := e.Heartbeat(t.Context(), 0, []job.Beat{beat(l, time.Minute)})
			beaten.Store(true)
			all.Wait()
			if err != nil {
				t.Fatal(err)
			}
			taken := 0
			for i, list := range words {
				for _, word := range list {
					same(t, "a watch's word", word, job.OK)
					taken++
					takers[i]++
				}
			}
			snap, held := e.Snapshot(t), l
			switch {
			case said[0] == job.OK && taken == 0:
				kept++
				same(t, "state of a kept job", snap.State(l.ID), job.Processing)
				same(t, "running", snap.Counters["PAID:running"], 1)
			case said[0] == job.Lost && taken == 1:
				same(t, "state of a job that was taken back", snap.State(l.ID), job.Pending)
				same(t, "its place", snap.Sets["queue"][string(l.ID)], place)
				same(t, "ready", snap.Counters["PAID:ready"], 1)
				same(t, "running", snap.Counters["PAID:running"], 0)
				held = e.Take(t, 1)[0]
				same(t, "next attempt", held.Attempt, l.Attempt+1)
			default:
				t.Fatalf("the beat was answered %s, and the job taken back %d times", said[0], taken)
			}
			if round%10 == 0 { // and at the end
				same(t, "wrong", strings.Join(e.Audit(t), "\n"), "")
			}
			e.Finish(t, held)
			same(t, "crashes", held.Crashes, held.Attempt-l.Attempt)
			same(t, "retries", e.Drain(t)[0].RetryCount, held.Crashes)
		}
		t.Logf("evidence: of %d jobs %d were kept; the watches took %v", tried, kept, takers)
		if !landed(tried) {
			t.Errorf("%d of %d jobs were kept: the race did not land", kept, tried)
		}
	})
}

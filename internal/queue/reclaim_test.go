package queue_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

var watches = []job.Watch{job.Crashed, job.Stuck}

// limitCrashes gives the plans of this process a limit of crashes; nil = a crash spends a retry.
func limitCrashes(e *queuetest.Env, most *int) {
	plans := e.Plans.All()
	for i := range plans {
		plans[i].MaxCrashes = most
	}
	e.Plans.Set(plans)
}

// Both watches use the same script: the job goes back to its original place, has spent a retry, or none if it crashed
// and its plan limits crashes, and is out of both sets.
func TestReclaim(t *testing.T) {
	t.Attr("proves", "S2-S7 S2-P3 S2-P7")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		for i, w := range append(watches, watches...) {
			retries := 1
			if i == len(watches) {
				limitCrashes(e, new(3))
			}
			if i >= len(watches) && w == job.Crashed {
				retries = 0
			}
			a, b := e.Put(t, job.Paid), e.Put(t, job.Paid)
			place := e.Snapshot(t).Sets["queue"][string(a)]
			l := e.Take(t, 1)[0]
			bystander := e.Take(t, 1)[0]
			found := e.Reap(t, w, a)
			same(t, "found", len(found), 1)
			same(t, "word", found[a], job.OK)
			snap := e.Snapshot(t)
			same(t, "state", snap.State(a), job.Pending)
			same(t, "score", snap.Sets["queue"][string(a)], place)
			same(t, "bystander", snap.State(b), job.Processing)
			same(t, "suspects", len(snap.Keys["suspects:"+string(w)].Items), 0)
			j, err := e.Find(t.Context(), a)
			if err != nil {
				t.Fatal(err)
			}
			crashes := 0
			if w == job.Crashed {
				crashes = 1
			}
			same(t, "crashes", j.Crashes, crashes)
			same(t, "retries", j.RetryCount, retries)
			same(t, "cause", j.Cause, w.Cause())
			again := e.Take(t, 1)[0]
			same(t, "retries of the next lease", again.RetryCount, retries)
			same(t, "attempt", again.Attempt, l.Attempt+1)
			same(t, "crashes of the next lease", again.Crashes, crashes)
			e.Finish(t, again, bystander)
			out := e.Drain(t)
			same(t, "history", out[0].Attempts[0].Outcome, string(w.Cause()))
			same(t, "worker", out[0].Attempts[0].Worker, e.Options.Nonce)
		}
	})
}

func TestReclaimUntilSpent(t *testing.T) {
	t.Attr("proves", "S2-S8 S2-N4 S2-S2")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		for _, w := range watches {
			for tier, retries := range map[job.Tier]int{job.Paid: 5, job.Unpaid: 2, job.Public: 1} {
				id, takenBack := e.Put(t, tier), retries
				for range takenBack {
					e.Take(t, 1)
					same(t, "word", e.Reap(t, w, id)[id], job.OK)
				}
				e.Take(t, 1)
				same(t, "last word", e.Reap(t, w, id)[id], job.Discarded)
				same(t, "state", e.Snapshot(t).State(id), job.NeedDiscard)
				out := e.Drain(t)[0]
				same(t, "outcome", out.Status, job.Failed)
				same(t, "total retries", out.RetryCount, retries)
				same(t, "cause", out.Cause, w.Cause())
				same(t, "history", len(out.Attempts), takenBack+1)
			}
		}
	})
}

// A plan may limit the crashes of a generation: then crashes and retries do not add up. With 0 the first crash is the
// end.
func TestReclaimUntilCrashesAreSpent(t *testing.T) {
	t.Attr("proves", "S0-P1")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		for _, most := range []int{3, 0} {
			limitCrashes(e, &most)
			for _, tier := range []job.Tier{job.Paid, job.Unpaid, job.Public} {
				id := e.Put(t, tier)
				for range most {
					e.Take(t, 1)
					same(t, "word", e.Reap(t, job.Crashed, id)[id], job.OK)
				}
				e.Take(t, 1)
				same(t, "last word", e.Reap(t, job.Crashed, id)[id], job.Discarded)
				out := e.Drain(t)[0]
				same(t, "total retries", out.RetryCount, 0)
				same(t, "cause", out.Cause, job.HeartbeatStopped)
				same(t, "history", len(out.Attempts), most+1)
			}
		}
		// A plan that gets its limit later finds the crashes counted that spent retries. Without one they spend retries
		// again.
		limitCrashes(e, nil)
		id := e.Put(t, job.Paid)
		for i, most := range []*int{nil, nil, new(3), nil} {
			limitCrashes(e, most)
			e.Take(t, 1)
			same(t, "word", e.Reap(t, job.Crashed, id)[id], job.OK)
			j, err := e.Find(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "crashes", j.Crashes, i+1)
			same(t, "retries", j.RetryCount, []int{1, 2, 2, 3}[i])
		}
		limitCrashes(e, new(4))
		e.Take(t, 1)
		same(t, "the fifth crash", e.Reap(t, job.Crashed, id)[id], job.Discarded)
		same(t, "total retries", e.Drain(t)[0].RetryCount, 3)
	})
}

// Texts of an earlier version do not have the crashes: they are none, and the rest of the text counts.
func TestReclaimCountsFromAnEarlierVersion(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		limitCrashes(e, new(3))
		id := e.Start(t, job.Public).ID
		same(t, "word", e.Reap(t, job.Crashed, id)[id], job.OK)
		without := func(text string) string {
			words := strings.Split(text, " ") // the crashes are the tenth word
			same(t, "crashes", words[9], "1")
			return strings.Join(slices.Delete(words, 9, 10), " ")
		}
		e.Edit(t, "tried", id, without)
		j, err := e.Find(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "crashes", j.Crashes, 0)
		same(t, "cause", j.Cause, job.HeartbeatStopped)
		l := e.Take(t, 1)[0]
		same(t, "attempt", l.Attempt, 2)
		same(t, "crashes of the lease", l.Crashes, 0)
		same(t, "word", e.Reap(t, job.Crashed, id)[id], job.OK)
		same(t, "crashes of the next lease", e.Take(t, 1)[0].Crashes, 1)
	})
}

// Reclaim returns the tier of each job that it reclaims.
func TestReclaimTiers(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		back, asked, spent := e.Start(t, job.Paid).ID, e.Start(t, job.Unpaid).ID, e.Put(t, job.Public)
		e.Take(t, 1)
		same(t, "word", e.Reap(t, job.Stuck, spent)[spent], job.OK)
		e.Take(t, 1) // and with that the only retry is spent
		same(t, "asked", e.Cancels(t, asked), job.Cancel)
		e.Expire(t, job.Stuck, back, asked, spent)
		looks := func(want ...job.Reclaimed) {
			t.Helper()
			found, err := e.Reclaim(t.Context(), 0, job.Stuck, 0)
			if err != nil {
				t.Fatal(err)
			}
			slices.SortFunc(found, func(a, b job.Reclaimed) int { return cmp.Compare(a.ID, b.ID) })
			slices.SortFunc(want, func(a, b job.Reclaimed) int { return cmp.Compare(a.ID, b.ID) })
			if !slices.Equal(found, want) {
				t.Errorf("a look answers %v, not %v", found, want)
			}
		}
		looks(job.Reclaimed{ID: back, Word: job.Suspect}, job.Reclaimed{ID: asked, Word: job.Suspect},
			job.Reclaimed{ID: spent, Word: job.Suspect})
		e.Age(t, "suspects:stuck", queue.Patience)
		late := job.MaxTimeExceeded
		looks(job.Reclaimed{ID: back, Word: job.OK, Tier: job.Paid, Cause: late, Attempt: 1, Spent: 1},
			job.Reclaimed{ID: asked, Word: job.WasCancelled, Tier: job.Unpaid, Cause: late},
			job.Reclaimed{ID: spent, Word: job.Discarded, Tier: job.Public, Cause: late})
	})
}

// The stuck watch tells a dead worker from a slow job: one that has missed two of three heartbeats is dead. The text of
// the error names the limit.
func TestReclaimCause(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		const lease = 15 * time.Second // of a PAID job
		for name, c := range map[string]struct {
			watch  job.Watch
			silent time.Duration
			want   job.Cause
		}{
			"it beats":            {job.Stuck, 0, job.MaxTimeExceeded},
			"one beat is missing": {job.Stuck, lease/3 + time.Second, job.MaxTimeExceeded},
			"two are missing":     {job.Stuck, lease * 2 / 3, job.HeartbeatStopped},
			"the lease is over":   {job.Stuck, 2 * lease, job.HeartbeatStopped},
			"silent":              {job.Crashed, 2 * lease, job.HeartbeatStopped},
		} {
			l := e.Start(t, job.Paid)
			e.Age(t, "heartbeat_deadlines", c.silent, l.ID)
			if c.watch == job.Stuck {
				e.Expire(t, job.Stuck, l.ID)
			}
			limit := e.Snapshot(t).Sets["run_deadlines"][string(l.ID)] - float64(l.StartedAt.UnixMilli())
			why := map[job.Cause]string{
				job.MaxTimeExceeded:  job.MaxTimeText(time.Duration(limit) * time.Millisecond),
				job.HeartbeatStopped: job.HeartbeatText(lease),
			}[c.want]
			e.Look(t, c.watch)
			e.Age(t, "suspects:"+string(c.watch), queue.Patience, l.ID)
			found, err := e.Reclaim(t.Context(), 0, c.watch, 0)
			if err != nil || len(found) != 1 || found[0].Cause != c.want {
				t.Errorf("%s: %+v, %v; want %s", name, found, err, c.want)
			}
			if f := e.Snapshot(t).Jobs[string(l.ID)]; f["cause"] != string(c.want) || f["error"] != why {
				t.Errorf("%s: %s %q, want %q", name, f["cause"], f["error"], why)
			}
			e.Finish(t, e.Take(t, 1)...)
			e.Drain(t)
		}
	})
}

// A watch reclaims a job with a look that comes at least Patience after the first look, and never earlier.
func TestReclaimTwoLooks(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		for _, w := range watches {
			const most = 50
			tries := 1
			for ; tries < most && !twoLooks(t, e, w); tries++ {
			}
			if tries == most {
				t.Errorf("%s: none of %d looks was early by Redis' clock: this machine stands still", w, most)
			}
		}
	})
}

// twoLooks says whether its early look was early by Redis' clock. On a machine that stood still meanwhile, the
// look proves nothing.
func twoLooks(t *testing.T, e *queuetest.Env, w job.Watch) bool {
	t.Helper()
	early := false
	const before = 200 * time.Millisecond // how long before the job may be reclaimed the early look comes
	suspects, taken := "suspects:"+string(w), false
	l := e.Start(t, job.Paid)
	look := func() (word job.Word) { // a further look; sets whether it was early
		at, err := e.Redis.ZScore(t.Context(), "{tierq:0}:"+suspects, string(l.ID)).Result()
		if err != nil {
			t.Fatal(err)
		}
		word = e.Look(t, w)[l.ID]
		early, taken = e.Now(t)-int64(at) < queue.Patience.Milliseconds(), word == job.OK
		return word
	}
	same(t, "looks at the healthy", len(e.Look(t, w)), 0)
	e.Expire(t, w, l.ID)
	same(t, "first look", e.Look(t, w)[l.ID], job.Suspect)
	first := e.Snapshot(t)
	if word := look(); early {
		same(t, "at once again", word, job.Suspect)
		e.Unchanged(t, first) // the time of the first look stays
		e.Age(t, suspects, queue.Patience-before)
		if word = look(); early {
			same(t, "a bit early", word, job.Suspect)
			same(t, "state", e.Snapshot(t).State(l.ID), job.Processing)
		}
	}
	proven := early
	if !taken {
		e.Age(t, suspects, queue.Patience)
		same(t, "in time", look(), job.OK)
	}
	e.Finish(t, e.Take(t, 1)...)
	e.Drain(t)
	return proven
}

// A heartbeat after the first look saves the job and makes that look void.
func TestReclaimSavedByHeartbeat(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		l := e.Start(t, job.Public)
		e.Expire(t, job.Crashed, l.ID)
		e.Look(t, job.Crashed)
		e.Age(t, "suspects:crashed", time.Minute)
		got, err := e.Heartbeat(t.Context(), 0, []job.Beat{beat(l, 3*time.Second)})
		words(t, got, err, job.OK)
		same(t, "expired after the beat", len(e.Look(t, job.Crashed)), 0)
		e.Age(t, "heartbeat_deadlines", 4*time.Second, l.ID) // expired again, 1 s ago: after that first look
		same(t, "the stale look", e.Look(t, job.Crashed)[l.ID], job.Suspect)
		same(t, "state", e.Snapshot(t).State(l.ID), job.Processing)
	})
}

// A suspect's entry has no effect on the job's next attempt.
func TestReclaimStaleSuspects(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		l := e.Start(t, job.Public)
		e.Expire(t, job.Crashed, l.ID)
		e.Look(t, job.Crashed)
		e.Age(t, "suspects:crashed", 10*time.Second)
		got, err := e.Release(t.Context(), 0, []job.Release{{LeaseRef: l.Ref()}})
		ends(t, got, err, job.OK)
		again := e.Take(t, 1)[0]
		e.Age(t, "heartbeat_deadlines", 4*time.Second, again.ID)
		same(t, "word", e.Look(t, job.Crashed)[again.ID], job.Suspect)

		e.Finish(t, again)
		e.Age(t, "suspects:crashed", 2*time.Hour)
		e.Look(t, job.Crashed)
		same(t, "suspects after an hour", len(e.Snapshot(t).Keys["suspects:crashed"].Items), 0)
	})
}

func TestReclaimCancelled(t *testing.T) {
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		for _, w := range watches {
			l := e.Start(t, job.Paid)
			e.Cancels(t, l.ID)
			same(t, "word", e.Reap(t, w, l.ID)[l.ID], job.WasCancelled)
			same(t, "outcome", e.Drain(t)[0].Status, job.Cancelled)
		}
	})
}

func TestReclaimPages(t *testing.T) {
	t.Attr("proves", "S2-P6")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		var batch []job.Submission
		for range 250 {
			batch = append(batch, queuetest.Job(job.Paid))
		}
		e.PutAll(t, batch[:125]...)
		e.PutAll(t, batch[125:]...)
		for range 5 {
			e.Take(t, 50)
		}
		bystander := e.Start(t, job.Paid) // 15 s to its deadline: longer than this test takes
		for i, s := range batch {
			e.Age(t, "heartbeat_deadlines", time.Hour+time.Duration(i)*time.Second, s.ID)
		}
		look := func(skip int) (suspects, taken int) {
			found, err := e.Reclaim(t.Context(), 0, job.Crashed, skip)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range found {
				switch f.Word {
				case job.Suspect:
					suspects++
				case job.OK:
					taken++
				}
			}
			return suspects, taken
		}
		for _, want := range []int{100, 100, 50, 0} { // the first look continues after the suspects that it has found
			n := len(e.Snapshot(t).Keys["suspects:crashed"].Items)
			suspects, taken := look(n)
			same(t, "suspects", suspects, want)
			same(t, "taken", taken, 0)
		}
		e.Age(t, "suspects:crashed", queue.Patience)
		for _, want := range []int{100, 100, 50, 0} { // reclaimed jobs leave the set
			suspects, taken := look(0)
			same(t, "suspects", suspects, 0)
			same(t, "taken", taken, want)
		}
		snap := e.Snapshot(t)
		same(t, "back", snap.Counters["PAID:ready"], 250)
		same(t, "bystander", snap.State(bystander.ID), job.Processing)
	})
}

func TestReclaimQuarantines(t *testing.T) {
	t.Attr("proves", "F53")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		gone, noAttempt, pending, good := e.Start(t, job.Paid).ID, e.Start(t, job.Paid).ID, e.Start(t, job.Paid).ID,
			e.Start(t, job.Paid).ID
		for _, id := range []job.ID{gone, pending} {
			e.Redis.HDel(t.Context(), queue.Key(0, "leases"), string(id))
		}
		e.Redis.Del(t.Context(), queue.JobKey(gone))
		e.SetWord(t, "leases", noAttempt, "attempt", "none")
		found := e.Reap(t, job.Stuck, gone, noAttempt, pending, good)
		for _, id := range []job.ID{gone, noAttempt, pending} {
			same(t, "word", found[id], job.Quarantined)
		}
		same(t, "the good one's word", found[good], job.OK)
		snap := e.Snapshot(t)
		same(t, "heartbeat_deadlines", len(snap.Sets["heartbeat_deadlines"]), 0)
		same(t, "run_deadlines", len(snap.Sets["run_deadlines"]), 0)
		e.Broken(t, "3 in quarantine", fmt.Sprintf("%s: in quarantine without a job", gone))
	})
}

// If a job's entry for one watch is lost, the other watch finds the job. Its lease still stands: a heartbeat brings
// the entry back, and the holder's reports are accepted.
func TestReclaimHalfALease(t *testing.T) {
	t.Attr("proves", "F53")
	t.Parallel()
	queuetest.Each(t, func(t *testing.T, e *queuetest.Env) {
		for verb, write := range writes {
			l := e.Start(t, job.Paid)
			e.Redis.ZRem(t.Context(), queue.Key(0, "heartbeat_deadlines"), string(l.ID))
			got, err := write(t.Context(), e.Queue, l.Ref())
			want := job.OK
			if verb != "complete" {
				e.Cancels(t, l.ID) // so that no other verb claims it
			}
			if err != nil || got[0].Word != want {
				t.Errorf("%s without an entry: %v, %v", verb, got, err)
			}
		}
		l := e.Start(t, job.Paid)
		e.Redis.ZRem(t.Context(), queue.Key(0, "heartbeat_deadlines"), string(l.ID))
		same(t, "word", e.Reap(t, job.Stuck, l.ID)[l.ID], job.OK)
	})
}

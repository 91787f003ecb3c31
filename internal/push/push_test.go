package push

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/handler"
	"github.com/tierq/tierq/internal/job"
)

// A queue has at most its concurrency of posts under way, and each end makes room for one more.
func TestConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, to := newRoom(7), newReceiver()
		started(t, r, to, true, pictures(3), job.Queue{Name: "films"})
		for done := range 7 {
			posts, at, most := to.counts()
			if want := min(done+3, 7); posts != want || at != want-done || most != 3 {
				t.Fatalf("after %d: %d posts, %d now, %d at most", done, posts, at, most)
			}
			to.answers <- good(fmt.Sprint(done))
			synctest.Wait()
		}
		if ends := r.ended(); len(ends) != 7 || ends["lease-1"].Kind != job.DidSucceed {
			t.Errorf("%+v", ends)
		}
		ids := map[string]bool{} // a claim with the id of an answered one would get its jobs again
		for _, c := range r.claims {
			if ids[c.ID] {
				t.Errorf("two claims are %s", c.ID)
			}
			ids[c.ID] = true
			if !slices.Equal(c.Queues, []string{"pictures"}) || c.Worker != "w1" || c.Lease != 0 || c.Max > 3 {
				t.Errorf("claimed %+v", c)
			}
		}
		r.add(1) // a claim waits
		synctest.Wait()
		if posts, _, _ := to.counts(); posts != 8 {
			t.Errorf("%d posts", posts)
		}
	})
}

// What the receiver answers is what is reported.
func TestReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, to := newRoom(0), newReceiver()
		started(t, r, to, true, pictures(1))
		for i, c := range []struct {
			answer answer
			want   job.Report
		}{
			{good("7"), job.Report{Result: []byte("7")}},
			{answer{PushAnswer: job.PushAnswer{Cut: true}}, job.Report{Cut: true}},
			{answer{err: errors.New("x answered 500")}, job.Report{Kind: job.DidFail, Error: "x answered 500", RetryAfter: -1}},
			{answer{err: handler.Permanent(errors.New("x"))}, job.Report{Kind: job.DidFail, Error: "x", Permanent: true,
				RetryAfter: -1}},
			{answer{err: handler.LaterBecause(time.Minute, "busy")}, job.Report{Kind: job.GaveBack, Delay: time.Minute,
				Reason: "busy"}},
		} {
			r.add(1)
			synctest.Wait()
			to.answers <- c.answer
			synctest.Wait()
			if got := r.ended()[fmt.Sprintf("lease-%d", i+1)]; fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("%+v reports %+v, want %+v", c.answer, got, c.want)
			}
		}
	})
}

// After a 202 the lease is the receiver's: it gets its whole length once more, and then no heartbeat and no report. The
// next post may begin.
func TestAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, to := newRoom(2), newReceiver()
		p, _ := started(t, r, to, true, pictures(1))
		to.answers <- answer{PushAnswer: job.PushAnswer{Takes: true}}
		synctest.Wait()
		if r.beats["lease-1"] != 1 || len(r.ended()) != 0 || p.Running() != 1 {
			t.Fatalf("%v, %v, %d", r.beats, r.ended(), p.Running())
		}
		<-time.After(time.Minute / 2)
		if r.beats["lease-1"] != 1 || r.beats["lease-2"] < 10 {
			t.Errorf("%v", r.beats)
		}
		if err := p.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if _, reported := r.ended()["lease-1"]; reported || len(r.keys) != 1 || !r.keys[""] {
			t.Errorf("reported %+v, with %v", r.ended(), r.keys)
		}
	})
}

// The lease goes to the receiver on a server without keys, or if the queue names the key that may use it.
func TestLeaseForTheReceiver(t *testing.T) {
	for _, c := range []struct {
		open bool
		key  string
		want string
	}{
		{true, "", "lease-1"}, {false, "", ""}, {false, "aaaaaaaaaaaaaaaa", "lease-1"},
		{true, "aaaaaaaaaaaaaaaa", "lease-1"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, to := newRoom(1), newReceiver()
			q := pictures(1)
			q.Push.Key = c.key
			started(t, r, to, c.open, q)
			to.answers <- good("1")
			synctest.Wait()
			if to.leases[0] != c.want || r.claims[0].Key != c.key || !r.keys[c.key] || len(r.keys) != 1 {
				t.Errorf("%+v: the lease %q, claimed with %q, %v", c, to.leases[0], r.claims[0].Key, r.keys)
			}
		})
	}
}

// Heartbeats keep a lease while its post is under way. They bring a cancel, and the loss of the lease, which also shows
// when no heartbeat is answered. The time of an attempt ends it too.
func TestPostsAreEnded(t *testing.T) {
	cut := job.Report{Kind: job.DidFail, Error: "cut off", RetryAfter: -1}
	late := cut
	late.Overdue = true
	for name, c := range map[string]struct {
		word       job.Word
		deaf       bool
		from, upto time.Duration // when the post is ended
		why        error
		want       job.Report
	}{
		"cancelled": {job.Cancel, false, 0, 2 * beatEvery, handler.ErrCancelled, cut},
		"lost":      {job.Lost, false, 0, 2 * beatEvery, handler.ErrLeaseLost, job.Report{Kind: job.GaveBack}},
		"deaf": {"", true, leaseFor - time.Second, leaseFor + 2*beatEvery, handler.ErrLeaseLost,
			job.Report{Kind: job.GaveBack}},
		"too long": {"", false, time.Minute - time.Second, time.Minute + time.Second, handler.ErrMaxTime, late},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, to := newRoom(1), newReceiver()
				r.words["lease-1"], r.deaf = c.word, c.deaf
				started(t, r, to, true, pictures(1))
				<-time.After(c.from)
				if len(to.told) != 0 {
					t.Errorf("after %s: %v", c.from, to.told)
				}
				<-time.After(c.upto - c.from)
				got := r.ended()["lease-1"]
				if len(to.told) != 1 || !errors.Is(to.told[0], c.why) || fmt.Sprint(got) != fmt.Sprint(c.want) {
					t.Errorf("%v, %+v, want %+v", to.told, r.ended(), c.want)
				}
			})
		})
	}
}

// Jobs that come when their queue pushes no more go back unposted.
func TestLateJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, to := newRoom(0), newReceiver()
		r.late = true
		_, d := started(t, r, to, true, pictures(2))
		d.set()
		<-time.After(lookEvery + time.Millisecond)
		r.mu.Lock()
		r.ready = 1
		r.mu.Unlock()
		<-time.After(2 * time.Second)
		report, reported := r.ended()["lease-1"]
		want := fmt.Sprint(job.Report{Kind: job.GaveBack})
		if posts, _, _ := to.counts(); posts != 0 || !reported || fmt.Sprint(report) != want {
			t.Errorf("%d posts, %+v", posts, r.ended())
		}
	})
}

// A store that does not answer loses no report, and no claim: both are sent again, the claim under its name.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, to := newRoom(1), newReceiver()
		r.failing = job.ErrUnavailable
		p, _ := started(t, r, to, true, pictures(1))
		<-time.After(3500 * time.Millisecond)
		r.mu.Lock()
		r.failing = nil
		claims := slices.Clone(r.claims)
		r.mu.Unlock()
		for n, again := range claims {
			if again.ID != claims[0].ID || again.Repeat != n {
				t.Errorf("claims %+v", claims)
			}
		}
		if len(claims) < 3 || len(claims) > 5 {
			t.Errorf("%d claims in 3 s", len(claims))
		}
		<-time.After(time.Second)
		r.mu.Lock()
		for range 20 {
			r.endErrs = append(r.endErrs, job.ErrAmbiguous)
		}
		r.mu.Unlock()
		to.answers <- good("7")
		<-time.After(40 * time.Second)
		if ends := r.ended(); string(ends["lease-1"].Result) != "7" || r.beats["lease-1"] < 5 || p.Running() != 0 {
			t.Errorf("%+v, %v", ends, r.beats)
		}
	})
}

// The pusher stops claiming from a queue whose push was switched off. If a queue pushes to another URL, posts to the
// old URL still count against the queue's bound. A quiet process claims nothing.
func TestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, to := newRoom(0), newReceiver()
		p, d := started(t, r, to, true, pictures(2))
		posts := func() int { n, _, _ := to.counts(); return n }
		claims := func() int { r.mu.Lock(); defer r.mu.Unlock(); return len(r.claims) }
		stands := func(what string) {
			t.Helper()
			before := posts()
			r.add(1)
			<-time.After(2 * claimWait)
			if posts() != before {
				t.Errorf("%s: a job was posted", what)
			}
		}
		d.set(job.Queue{Name: "pictures"})
		<-time.After(2 * lookEvery)
		stands("no push")
		d.set(pictures(2))
		p.Quiet(true)
		<-time.After(2 * lookEvery)
		stands("quiet")
		p.Quiet(false)
		<-time.After(2 * lookEvery)
		if posts() != 2 {
			t.Fatalf("%d posts", posts())
		}
		other := pictures(2)
		other.Push.URL = "https://y.example/"
		d.set(other)
		<-time.After(2 * lookEvery)
		before := claims()
		stands("as many as may be are under way")
		if claims() != before {
			t.Error("it claimed without room")
		}
		to.answers <- good("1")
		synctest.Wait()
		if posts() != 3 {
			t.Errorf("%d posts after one has ended", posts())
		}
	})
}

// Stop lets posts end; those that take too long are cut off, and their jobs go back at no cost.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, to := newRoom(2), newReceiver()
		p, _ := started(t, r, to, true, pictures(2))
		began := time.Now()
		go func() {
			<-time.After(2 * time.Second)
			to.answers <- good("7")
		}()
		r.add(1)
		if err := p.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took < 5*time.Second || took > 7*time.Second {
			t.Errorf("it took %s", took)
		}
		done, back := 0, 0
		for _, report := range r.ended() {
			switch {
			case report.Kind == job.DidSucceed:
				done++
			case report.Kind == job.GaveBack && report.Delay == 0:
				back++
			}
		}
		if posts, _, _ := to.counts(); done != 1 || back != 1 || posts != 2 {
			t.Errorf("%d posts, %+v", posts, r.ended())
		}
		if err := p.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if p.Start(t.Context()) == nil {
			t.Error("it starts again")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r, to := newRoom(1), newReceiver()
		p, _ := started(t, r, to, true, pictures(1))
		for range 1000 {
			r.endErrs = append(r.endErrs, job.ErrUnavailable)
		}
		if p.Stop(t.Context()) == nil {
			t.Error("a report that was not answered is no error")
		}
		if err := New(Config{}).Stop(t.Context()); err != nil {
			t.Errorf("before Start: %v", err)
		}
	})
}

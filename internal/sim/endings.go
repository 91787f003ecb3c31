package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// ends returns the arguments of a script that are about leases, and how many arguments each lease has.
func ends(script string, argv []string) (about []string, each int) {
	switch script {
	case "complete":
		return argv[1:], 4
	case "fail":
		return argv[3:], 8
	}
	if script == "log" {
		return argv, 6
	}
	return argv, 8 // heartbeat
}

// endings checks reports: the script accepts a report with the stored lease and no other, and a repeat of the same
// report gets the same answer.
func (s *shadow) endings(kind string, argv, texts []string) {
	argv, step := ends(kind, argv)
	for i := 0; i < len(argv); i += step {
		e, text, what := argv[i:i+step], texts[i/step], kind
		if kind == "fail" {
			what = e[3] // fail, release, later or unknown
		}
		k, key := s.jobs[job.ID(e[0])], fmt.Sprint(what, " ", e[2], " ", e[1], " ")
		word, _, _ := strings.Cut(text, " ")
		switch {
		case k != nil && k.holds(e[2], e[1]):
			s.spends(k)
			want := k.end(what, e, s.w)
			if job.Word(word) != want {
				s.wrong("S2 S5", "%s: a %s of its holder answers %q, not %s", k, what, text, want)
			}
			if k.ending = key + text; k.status.Ended() {
				s.letsGo(k)
			} else {
				s.takesAgain(k)
				s.backsOff(k)
			}
		case k != nil && strings.HasPrefix(k.ending, key):
			if k.ending != key+text {
				s.wrong("F27", "%s: the same %s again answers %q, not as before: %q", k, what, text, k.ending)
			}
		case job.Word(word) != job.Lost:
			s.wrong("S5", "%s: a %s of %s, attempt %s answers %q", k, what, e[2], e[1], text)
		}
	}
}

// end moves a running job as its holder reports, and returns the word that the script has to answer.
func (k *known) end(kind string, e []string, w *World) job.Word {
	now, delay := w.ms(), int64(0)
	if kind != "complete" {
		delay = number(e[7])
	}
	age := w.plan.laterAge.Milliseconds()
	beyond := kind == "later" && (w.plan.laters > 0 && k.free >= w.plan.laters || age > 0 && now+delay-k.first > age)
	inRow, since := k.inRow, k.rowSince
	goesOn := k.rowOf == kind && (kind == "unknown" || inRow >= 5 || now-since <= 60_000)
	if k.inRow = 0; !goesOn || inRow == 0 {
		inRow, since = 0, now
	}
	defer k.untold()
	switch {
	case k.cancel:
		k.status = job.Cancelled
		return job.WasCancelled
	case kind == "unknown":
		k.costs--
		if patience := w.plan.unknownFor.Milliseconds(); patience > 0 && now-since >= patience {
			k.status = job.NeedDiscard
			return job.Discarded
		}
		k.inRow, k.rowSince, k.rowOf = inRow+1, since, kind
		k.waits(now, min(int64(2000)<<inRow, 300_000))
		return job.OK
	case kind == "complete":
		k.status = job.Completed
		return job.OK
	case beyond && k.retries >= k.tier.MaxRetries:
		k.status = job.NeedDiscard
		return job.Discarded
	case beyond:
		k.retries++
		k.waits(now, delay)
		return job.OK
	case kind == "return":
		k.costs--
		if k.inRow, k.rowSince, k.rowOf = inRow+1, since, kind; k.inRow >= 5 {
			delay = min(int64(1000)<<(k.inRow-5), 60_000)
		}
		k.waits(now, delay)
		return job.OK
	case kind == "release", kind == "later":
		k.costs--
		if delay > 0 {
			k.free++
			if k.laters == nil {
				k.laters = map[string]string{}
			}
			k.laters[e[1]] = fmt.Sprint(now+delay, " ", e[5])
		}
		k.waits(now, delay)
		return job.OK
	case e[6] == "1" || k.retries >= k.tier.MaxRetries:
		k.status = job.NeedDiscard
		return job.Discarded
	}
	k.retries++
	k.waits(now, delay)
	return job.OK
}

func (k *known) waits(now, delay int64) {
	k.status, k.due = job.Pending, now+delay
	if delay > 0 {
		k.status = job.Scheduled
	}
}

// reclaim checks that a job is reclaimed only at the second look after its deadline, and only if a fault met its
// holder. plans has the most crashes of a generation, or -, behind the name of each tier.
func (s *shadow) reclaim(watch job.Cause, plans, texts []string) {
	now := s.w.ms()
	for i := 0; i < len(texts); i += 7 {
		word, tier, cause := job.Word(texts[i+1]), job.Tier(texts[i+2]), watch
		k := s.mustBe("S6", job.ID(texts[i]), job.Processing)
		if k == nil {
			continue
		}
		deadline := k.lease.beatEnd
		if watch == job.MaxTimeExceeded {
			if deadline = k.lease.maxEnd; k.lease.beatEnd <= now+k.lease.length()/3 {
				cause = job.HeartbeatStopped
			}
		}
		isFree := k.lease.token == goneLease
		if isFree {
			cause = job.HeartbeatStopped
		}
		patience := int64(2000)
		want := job.OK
		most, limited := mostCrashes(plans, k.tier.Tier)
		spendsCrash := cause == job.HeartbeatStopped && limited
		switch {
		case word == job.Suspect:
			patience, want = 0, job.Suspect
		case k.cancel:
			want = job.WasCancelled
		case isFree:
		case spendsCrash && k.crashes >= most, !spendsCrash && k.retries >= k.tier.MaxRetries:
			want = job.Discarded
		}
		if word != want || now-deadline < patience {
			s.wrong("S5", "%s: a look for %s answers %s, not %s, %d ms after its deadline", k, watch, word, want, now-deadline)
		}
		if known := word != job.Suspect; known != (tier == k.tier.Tier) || !known && tier != "" ||
			known != (texts[i+3] == string(cause)) || !known && texts[i+3] != "" {
			s.wrong("S5", "%s: a look for %s answers %s, the tier %q and the cause %q", k, watch, word, tier, texts[i+3])
		}
		if word == job.Suspect {
			continue
		}
		s.explained(k, cause)
		s.spends(k)
		switch word {
		case job.OK:
			k.status, k.inRow = job.Pending, 0
			k.untold()
			if cause == job.HeartbeatStopped && !isFree {
				k.crashes++
			}
			if spendsCrash || isFree {
				k.costs--
			} else {
				k.retries++
			}
			s.takesAgain(k)
		case job.WasCancelled:
			k.status = job.Cancelled
			s.letsGo(k)
		default:
			k.status = job.NeedDiscard
			s.letsGo(k)
		}
		k.ending = ""
	}
}

// mostCrashes reads from a reclaim's arguments how many crashes a generation of a tier may have, if they are limited:
// otherwise each spends a retry.
func mostCrashes(plans []string, tier job.Tier) (most int, limited bool) {
	at := slices.Index(plans, string(tier))
	if at < 0 {
		at = slices.Index(plans, "*") // the process does not know the tier yet
	}
	return int(number(plans[at+1])), plans[at+1] != "-"
}

func (s *shadow) promote(partition, n int) {
	now := s.w.ms()
	s.promoted[partition] = now
	due := 0
	for _, k := range s.waiting(partition, job.Scheduled, func(k *known) float64 { return float64(k.due) }) {
		if k.due <= now {
			due++
			k.status = job.Pending
			if !k.tried {
				k.wished = k.due
			}
		}
	}
	if due != n {
		s.wrong("S1", "promote finds %d jobs, %d are due", n, due)
	}
}

func (s *shadow) cancel(argv, texts []string) {
	for i := 0; i < len(argv); i += 2 {
		k, word := s.jobs[job.ID(argv[i])], texts[i/2]
		want := string(job.Empty)
		switch {
		case k == nil, k.forgotten:
		case k.status == job.Cancelled:
			want = string(job.WasCancelled)
		case k.status.Ended():
			want = string(job.Ended)
		case k.status == job.Processing:
			want = string(job.Cancel)
			k.cancel = true
		default:
			want = string(job.WasCancelled) + " " + string(k.tier.Tier)
			k.status, k.ending, s.inputOver[k.input] = job.Cancelled, "", true
			s.letsGo(k)
		}
		if word != want {
			s.wrong("F-cancel", "%s: a cancel answers %s, not %s", k, word, want)
		}
	}
}

// kill checks that a kill ends a waiting job of the generation that it names, and nothing else.
func (s *shadow) kill(argv, texts []string) {
	for i := 0; i < len(argv); i += 3 {
		k, word := s.jobs[job.ID(argv[i])], texts[i/3]
		want := string(job.Empty)
		switch {
		case k == nil, k.forgotten, fmt.Sprint(k.generation) != argv[i+1]:
		case k.killed:
			want = string(job.Discarded)
		case k.status.Ended():
			want = string(job.Ended)
		case k.status == job.Processing:
			want = string(job.Busy)
		default:
			want = string(job.Discarded) + " " + string(k.tier.Tier)
			k.status, k.ending, k.killed, s.inputOver[k.input] = job.NeedDiscard, "", true, true
			s.letsGo(k)
		}
		if word != want {
			s.wrong("F-kill", "%s: a kill answers %s, not %s", k, word, want)
		}
	}
}

// hasten checks that a scheduled job becomes ready, and nothing else moves.
func (s *shadow) hasten(argv, texts []string) {
	for i := range argv {
		k, word := s.jobs[job.ID(argv[i])], job.Word(texts[i])
		want := job.Empty
		switch {
		case k == nil, k.forgotten:
		case k.status.Ended():
			want = job.Ended
		case k.status == job.Processing:
			want = job.Busy
		case k.status == job.Held:
			want, k.due = job.OK, 0
		default:
			want = job.OK
			if k.status == job.Scheduled && !k.tried {
				k.wished = min(k.due, s.w.ms())
			}
			k.status = job.Pending
		}
		if word != want {
			s.wrong("F-hasten", "%s: a hasten answers %s, not %s", k, word, want)
		}
	}
}

func (s *shadow) acknowledge(argv, texts []string) {
	for i := 1; i < len(argv); i += 2 {
		// generation attempt outcome is_kept known
		k, word, said := s.jobs[job.ID(argv[i])], job.Word(texts[i/2]), strings.Fields(argv[i+1])
		if k == nil && s.lost[job.ID(argv[i])] == nil {
			s.wrong("S3", "%s: acknowledged, and nobody submitted it", argv[i])
			continue
		}
		want := job.Empty
		if k != nil && !k.acked && k.status.Ended() && fmt.Sprint(k.generation) == said[0] &&
			fmt.Sprint(k.attempt) == said[1] {
			want = job.OK
		}
		if word != want {
			s.wrong("S19", "%s: an acknowledge of generation %s, attempt %s answers %s, not %s", k, said[0], said[1], word, want)
		}
		if want != job.OK {
			continue
		}
		if _, there := s.w.sql.outcomes[life{k.id, k.generation}]; !there {
			s.wrong("S1", "%s: acknowledged, and SQL does not have it", k)
		}
		k.acked, k.status = true, job.Status(said[2])
		if said[3] == "true" { // no job shares its slice
			k.left = time.Duration(number(argv[0])) * time.Millisecond
		}
	}
}

// recorded checks an outcome that is written to SQL.
func (s *shadow) recorded(o *job.Outcome) {
	k := s.jobs[o.ID]
	if s.lost[o.ID] != nil {
		return // it may be the end that Redis lost
	}
	s.expiredRightly(o)
	if k == nil || k.generation != o.Generation || k.attempt != o.Attempt || !k.status.Ended() ||
		k.status.Shown() != o.Status || k.retries != o.RetryCount {
		s.wrong("S19", "SQL is told that %s generation %d ended %s with attempt %d and %d retries; it is %s", o.ID,
			o.Generation, o.Status, o.Attempt, o.RetryCount, k)
		return
	}
	var r result
	if o.Status == job.Completed && (json.Unmarshal(o.Result, &r) != nil || r != result{k.id, k.attempt}) {
		s.wrong("S18", "%s: its result is %q", k, o.Result)
	}
	if killed := o.Status == job.Failed && o.Cause == job.Killed; killed != k.killed || killed && o.LastError == "" {
		s.wrong("S19", "SQL is told that %s failed for %s, %q; it was killed: %v", k, o.Cause, o.LastError, k.killed)
	}
	var of payload
	if o.Status == job.Failed && (json.Unmarshal(o.Payload, &of) != nil || of.Of != k.input) {
		s.wrong("S18", "%s: its dead letter's payload is %q", k, o.Payload)
	}
}

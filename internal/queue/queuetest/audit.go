package queuetest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tierq/tierq/internal/job"
)

// Audit returns the faults of a partition, none if all is well. It checks that every job is in exactly one place,
// that the counters agree with the sets and the owners with the living jobs, that living jobs have no time to live
// and slices of acknowledged jobs have one, that scores are the jobs' own, that no job is quarantined, and that every
// key is known. These are the invariants S1, S4, S6, S9, S10 and S15 of the reliability plan, as far as one snapshot
// shows them.
func (s Snapshot) Audit() []string {
	a := &audit{Snapshot: s, counted: map[string]int64{}, owned: map[string]int64{}}
	for id := range s.Jobs {
		a.job(id)
	}
	for name, set := range s.Sets {
		for id := range set {
			if _, ok := s.Jobs[id]; !ok && !strings.HasPrefix(id, "@") {
				a.say("%s: in %s without a job", id, name)
			}
		}
	}
	if n := len(s.Sets["quarantine"]); n > 0 {
		a.say("%d in quarantine", n)
	}
	for id := range s.Histories {
		if _, ok := s.Jobs[id]; !ok || s.Acknowledged(id) {
			a.say("%s: history of a job that is acknowledged or gone", id)
		}
	}
	a.logs()
	a.slices()
	if s.Doorbell > 1 {
		a.say("%d tokens on the doorbell", s.Doorbell)
	}
	a.places()
	a.counters()
	a.unique()
	a.lines()
	a.keys()
	slices.Sort(a.wrong)
	return a.wrong
}

type audit struct {
	Snapshot
	wrong   []string
	counted map[string]int64
	owned   map[string]int64 // the living jobs by owner
}

func (a *audit) say(format string, args ...any) {
	a.wrong = append(a.wrong, fmt.Sprintf(format, args...))
}

func (a *audit) count(h map[string]string, what string) {
	a.counted[h["tier"]+":"+what]++
	if h["queue"] != job.MainQueue {
		a.counted["@"+h["queue"]+":"+what]++
	}
	if what == "fresh" || what == "delayed" {
		a.counted[what]++
	}
}

// bytes adds to a count of bytes, that of the tier and that of all tiers.
func (a *audit) bytes(tier, what string, n int) {
	a.counted[tier+":"+what] += int64(n)
	a.counted[what] += int64(n)
}

// job checks one job's texts against each other and against the sets that the job is in.
func (a *audit) job(id string) {
	h := a.Jobs[id]
	if h["torn"] != "" || h["tier"] == "" || h["score"] == "" {
		a.say("%s: %v", id, h)
		return
	}
	state := a.State(job.ID(id))
	var in []string
	for _, name := range setNames {
		if _, ok := a.Sets[name][id]; ok {
			in = append(in, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.Sets)) {
		if _, ok := a.Sets[name][id]; ok && !slices.Contains(setNames, name) {
			in = append(in, name)
		}
	}
	want := append(a.place(id, state), a.expiry(id, state)...)
	missing := slices.ContainsFunc(want, func(name string) bool { return !slices.Contains(in, name) })
	if missing || len(in) != len(want) {
		a.say("%s: %s is in %v, not in %v", id, state, in, want)
	}
	a.texts(id, state)
	if !state.Ended() {
		a.bytes(h["tier"], "bytes", len(h["payload"])+len(h["checkpoint"])+int(whole(h["log"])))
		if owner := h["owner"]; owner != "" {
			a.owned[owner]++
		}
	}
	if whole(h["retries"]) > whole(h["max_retries"]) {
		a.say("%s: %s retries of %s", id, h["retries"], h["max_retries"])
	}
	a.times(id)
}

// texts checks which texts Redis has of a job: the record of a living job and of a FAILED or CANCELLED one that SQL
// lacks; the lease of a running job; of an ended job neither what was tried nor a checkpoint.
func (a *audit) texts(id string, state job.Status) {
	record, has := a.Records[id]
	if needed := !state.Ended() || state != job.Completed && !a.Acknowledged(id); has != needed {
		a.say("%s: %s, acknowledged %v, has a record: %v", id, state, a.Acknowledged(id), has)
	}
	if ttl := a.Keys[suffix("job")+id].TTL; has && ttl >= 0 {
		a.say("%s: %s, its record has a time to live of %s", id, state, ttl)
	}
	if h := a.Jobs[id]; has && !state.Ended() && whole(h["bytes"]) != int64(len(h["payload"])) {
		a.say("%s: %s bytes of payload, its head says %s", id, strconv.Itoa(len(h["payload"])), h["bytes"])
	}
	for _, name := range columnNames {
		text, has := a.Columns[name][id]
		if has && (state.Ended() || name == "leases" && state != job.Processing) {
			a.say("%s: %s, and in %s: %q", id, state, name, text)
		}
	}
	if lease := a.Columns["leases"][id]; lease != "" {
		class, rest, _ := strings.Cut(record, "\n")
		head, _, _ := strings.Cut(rest, "\n")
		if !strings.HasPrefix(lease, class+" ") || !strings.HasSuffix(lease, "\n"+head) {
			a.say("%s: lease %q of the record %q", id, lease, record)
		}
	}
}

// slices checks that a slice of ended jobs has a time to live exactly if SQL has all of its jobs, and that unacked
// counts the others.
func (a *audit) slices() {
	counted := map[string]int64{}
	for _, member := range a.Outbox {
		counted[SliceOf(member)]++
		h := a.Jobs[member[:min(len(member), idLength)]]
		want := h["generation"] + " " + cmp.Or(h["attempt"], "0")
		if of := strings.TrimPrefix(member[min(len(member), idLength):], " "); cmp.Or(of, "1 1") != want {
			a.say("outbox has %q of generation and attempt %s", member, want)
		}
	}
	for slice, ttl := range a.Slices {
		if (ttl >= 0) != (counted[slice] == 0) {
			a.say("slice %s: %d jobs in the outbox, its time to live is %s", slice, counted[slice], ttl)
		}
	}
	for slice, n := range a.Unacked {
		if n != counted[slice] {
			a.say("unacked of slice %s is %d, counted %d", slice, n, counted[slice])
		}
		delete(counted, slice)
	}
	for slice, n := range counted {
		a.say("unacked of slice %s is not there, counted %d", slice, n)
	}
}

// place returns the sets that a job must be in by its state, and counts the job.
func (a *audit) place(id string, state job.Status) []string {
	h := a.Jobs[id]
	tier, score := h["tier"], h["score"]
	_, tried := h["first"]
	switch state {
	case job.Pending:
		a.count(h, "ready")
		if !tried {
			a.count(h, "fresh")
		}
		set := setOfQueue(h["queue"])
		if h["line"] != "" {
			set = suffix("lines") + "jobs:" + tier + ":" + h["line"] + ":" + h["queue"]
		}
		if got, ok := a.Sets[set][id]; ok && strconv.FormatFloat(got, 'f', -1, 64) != score {
			a.say("%s: score %.0f in the queue, its own is %s", id, got, score)
		}
		return []string{set}
	case job.Scheduled, job.Held:
		a.count(h, "scheduled")
		if !tried {
			a.count(h, "delayed")
			a.bytes(tier, "delayedbytes", len(h["payload"]))
		}
		return []string{"scheduled"}
	case job.Processing:
		a.count(h, "running")
		if !tried || h["token"] == "" || h["attempt"] == "" {
			a.say("%s: running without first, token or attempt", id)
		}
		return []string{"heartbeat_deadlines", "run_deadlines"}
	}
	if !state.Ended() {
		a.say("%s: state %q", id, state)
	}
	if a.Acknowledged(id) {
		return nil
	}
	a.counted["outbox_bytes"] += int64(len(h["result"])) + whole(h["log"])
	if state != job.Completed {
		a.counted["outbox_bytes"] += whole(h["bytes"])
	}
	return []string{"outbox"}
}

// expiry returns the set of jobs that must be claimed by a time, if a job must be in it: it waits and was never
// claimed.
func (a *audit) expiry(id string, state job.Status) []string {
	h := a.Jobs[id]
	if _, tried := h["first"]; h["expires"] == "" || tried || state.Ended() || state == job.Processing {
		return nil
	}
	if got, ok := a.Sets["expiries"][id]; ok && strconv.FormatFloat(got, 'f', -1, 64) != h["expires"] {
		a.say("%s: expires at %.0f, its class says %s", id, got, h["expires"])
	}
	return []string{"expiries"}
}

// times checks that first <= started <= ended, and that exactly the ended jobs have an end.
func (a *audit) times(id string) {
	h := a.Jobs[id]
	first, started, ended := whole(h["first"]), whole(h["started"]), whole(h["ended"])
	if first > started || ended > 0 && started > ended {
		a.say("%s: first %d, started %d, ended %d", id, first, started, ended)
	}
	if a.State(job.ID(id)).Ended() != (ended > 0) {
		a.say("%s: %s, ended %d", id, a.State(job.ID(id)), ended)
	}
}

// places counts the reserved places. A job that is in Redis has none.
func (a *audit) places() {
	for id, text := range a.Reserved {
		words := strings.Fields(text)
		if len(words) < 6 {
			a.say("%s: the place %q", id, text)
			continue
		}
		h, bytes := map[string]string{"tier": words[1], "queue": words[2]}, int(whole(words[5]))
		if state := a.State(job.ID(id)); state != "" && !state.Ended() {
			a.say("%s: %s, and has a reserved place", id, state)
		}
		a.counted[h["tier"]+":reserved"]++
		a.bytes(h["tier"], "bytes", bytes)
		if words[3] != "-" {
			a.owned[words[3]]++
		}
		switch words[0] {
		case "f":
			a.count(h, "fresh")
			if len(words) > 6 && strings.HasPrefix(words[6], "line=") {
				a.counted["#"+h["tier"]+":"+words[6][5:]+":"+h["queue"]+":reserved"]++
			}
		case "d":
			a.count(h, "delayed")
			a.bytes(h["tier"], "delayedbytes", bytes)
		}
	}
	for id := range a.Reserving {
		if a.Reserved[id] == "" {
			a.say("%s: in reserving without a place", id)
		}
	}
}

func (a *audit) counters() {
	fields := maps.Clone(a.Counters)
	maps.Copy(fields, a.counted)
	delete(fields, "acknowledged") // this counter only grows
	delete(fields, "-")            // these two are marks of the places
	delete(fields, "~")
	for field := range fields {
		if a.Counters[field] != a.counted[field] {
			a.say("counter %s is %d, counted %d", field, a.Counters[field], a.counted[field])
		}
	}
	for owner, n := range a.Owners {
		if n != a.owned[owner] || n <= 0 {
			a.say("counter of owner %s is %d, counted %d", owner, n, a.owned[owner])
		}
	}
	for owner, n := range a.owned {
		if _, ok := a.Owners[owner]; !ok {
			a.say("counter of owner %s is not there, counted %d", owner, n)
		}
	}
}

// keys checks every key against those of docs/KEYS.md: an unknown key was spelled outside keys.go.
func (a *audit) keys() {
	known := map[string]string{"counters": "hash", "owners": "hash", "clock": "string", "doorbell": "list",
		"epoch": "string", "suspects:crashed": "zset", "suspects:stuck": "zset", "unacked": "hash",
		"reserved": "hash", "reserving": "zset"}
	for _, name := range columnNames {
		known[suffix(name)] = "hash"
	}
	for _, name := range setNames {
		known[suffix(name)] = "zset"
	}
	prefixes := map[string]string{suffix("job"): "string", suffix("attempts"): "list", "claims:": "string",
		suffix("logs"): "list",
		"faktory:":     "hash", suffix("ended"): "hash", suffix("idempotency"): "string", suffix("unique"): "string",
		suffix("rate"): "string", suffix("probe"): "string",
		"events": "string", "alarms": "string", suffix("queues"): "zset", suffix("doorbell") + ":": "list"}
	maps.Copy(prefixes, lineKinds())
	for key, v := range a.Keys {
		want := known[key]
		for prefix, kind := range prefixes {
			if strings.HasPrefix(key, prefix) {
				want = kind
			}
		}
		if v.Type != want {
			a.say("key %s is a %s, not a %q", key, v.Type, want)
		}
		ages := strings.HasPrefix(key, "claims:") || strings.HasPrefix(key, "faktory:") ||
			strings.HasPrefix(key, suffix("idempotency")) || strings.HasPrefix(key, suffix("rate")) || key == suffix("probe") ||
			strings.HasPrefix(key, suffix("lines")+"spent:") || strings.HasPrefix(key, "events") ||
			strings.HasPrefix(key, "alarms")
		if ages && v.TTL < 0 {
			a.say("key %s stays for ever", key)
		}
		if v.TTL >= 0 && !ages && !strings.HasPrefix(key, suffix("ended")) && !strings.HasPrefix(key, suffix("unique")) {
			a.say("key %s has a time to live of %s", key, v.TTL)
		}
	}
}

func whole(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

package queue_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// lineMutations are faults that only jobs in lines show.
var lineMutations = []mutation{
	{"claim charges nothing", "claim", "t.tag, t.is_changed = t.tag + line.step, true", "t.is_changed = true", false},
	{"an end corrects nothing", "prelude", "n * (ran - run.charge) / tag_ms / s.weight", "0", false},
	{"a charge does not count the weight", "claim", "line.charge / tag_ms / s.weight", "line.charge / tag_ms", false},
	{"a mean stays as it was", "prelude", "value + 0.8 ^ n * (mean - value)", "mean", false},
	{"the lease forgets its charge", "claim", "' charge=' .. text(line.charge)", "' charge=0'", false},
	{"a line is taken to its end", "claim", "c.score = math.min(", "local _ = math.min(", false},
	{"running has no limit", "prelude", "s.running >= l.running then", "false then", false},
	{"a claim counts no attempt", "claim", "  start_one(s, now)\n", "", true},
	{"an end frees no attempt", "prelude", "math.max(s.running - n, 0), true", "s.running, true", true},
	{"nobody wakes", "prelude", "enter_queue(queue, queues, job, lines, read_line(key, home), now)", "", true},
	{
		"a parked line stays in its queue", "prelude",
		"if score then keep(removed, name, line.member) end\n          s.parked", "s.parked", true,
	},
	{
		"an empty line stays in its queue", "prelude",
		"if line.size <= 0 then\n          if score then", "if line.size <= 0 then\n          if false then", true,
	},
	{"an empty line is counted", "prelude", "bulk('ZREM', lines .. 'waiting', empty)", "", true},
	{"a strict key is as any other", "prelude", "l.strict and (s.running > 0 or s.behind ~= '-')", "false", false},
	{"a strict key does not wait for a retry", "prelude", "s.running > 0 or s.behind ~= '-'", "s.running > 0", false},
	{"a retry holds its key for ever", "prelude", "if settled[s.behind] then", "if false then", false},
	{"a line is counted once more", "prelude", "(tonumber(counted) or 0) + line.change", "(tonumber(counted) or 0)", true},
	{"a taken job is counted", "claim", "touch(line).change - #line.taken", "touch(line).change", true},
	{"a corrected tag moves nothing", "prelude", "elseif change ~= 0 then", "elseif false then", false},
	{"a rate is no limit", "prelude", "if l.interval > 0 then return", "if false then return", false},
	{"a burst is one", "prelude", "l.interval * (l.burst - 1)", "0", false},
	{"a rate is ahead of the clock", "prelude", "s.next_at > latest + 1", "false", false},
	{"promote looks at no later key", "promote", "for _, key in ipairs(keys) do woken[#woken + 1] = key end", "", false},
	{"a paused key runs", "prelude", "if l.paused_until > now then return l.paused_until end", "", false},
	{"submit fills a line", "submit", "if is_fresh and line_full(class) then return 'line' end", "", false},
	{
		"submit forgets what the call put into the line", "submit",
		"if size then line_sizes[class.line.line_name] = size + 1 end", "", false,
	},
	{"claim leaves it in its line", "claim", "bulk('ZREM', lines .. 'jobs:' .. line.line_name, line.taken)", "", true},
	{"restore counts no attempt", "prelude", "s.running, s.is_changed = s.running + 1, true\n    end", "end", true},
	{"a quiet key is given its past", "prelude", "math.max(t.tag, v.tag), true", "t.tag, true", false},
	{"tags never begin anew", "prelude", "      redis.call('UNLINK', lines .. 'tags:' .. line.home)\n", "", false},
	{"promote wakes nobody", "promote", "bulk('ZREM', lines .. 'parked', woken)", "woken = {}", false},
	{"new limits wake nobody", "limit_keys", "keys[#keys + 1] = key", "", false},
	{"a replaced job stays in its line", "submit", "elseif old.line ~= class.unique.line then", "elseif false then", true},
}

// tellLinesWith is tellWith for jobs in lines.
func tellLinesWith(t *testing.T, ids []job.ID, change func(*queue.Queue)) []string {
	t.Helper()
	e := queuetest.Embedded(t, func(o *queue.Options) {
		o.Nonce, o.Capacity, o.Journal, o.Embedded = "teller", 40, true, true
	})
	change(e.Queue)
	s := &telling{T: t, Env: e, ids: ids, leases: map[int]job.LeaseRef{}}
	s.tellLines()
	e.Broken(t)
	kept := s.lines[:0]
	for _, line := range s.lines { // tags and means have times of their own, and so has what a minute spent
		if !strings.Contains(line, "lines:tags:") && !strings.Contains(line, "lines:virtual") &&
			!strings.Contains(line, "lines:spent:") {
			kept = append(kept, timed.ReplaceAllString(line, "$1"))
		}
	}
	return kept
}

var timed = regexp.MustCompile(`( charge=| T)[\d.]+|(@[A-Z]+:[a-z@]+@)[-+.\de]+`)

// inLine submits jobs of a tier into the line of a key, in one call.
func (s *telling) inLine(key string, tier job.Tier, numbers ...int) {
	var batch []job.Submission
	for _, n := range numbers {
		batch = append(batch, job.Submission{ID: s.ids[n], Tier: tier, Type: "X", Payload: []byte("{}"), MaxRetries: 3,
			Options: job.Options{Line: key}})
	}
	words, err := s.Env.Words(s.Context(), 0, batch)
	s.say(fmt.Sprintf("submit %v into the line of %s", numbers, key), words, err)
}

func (s *telling) limit(l job.LineLimits) {
	s.say("limit "+l.Name, nil, s.Env.SetLimits(s.Context(), 0, []job.LineLimits{l}))
}

// ran moves the start of attempts into the past.
func (s *telling) ran(d time.Duration, numbers ...int) {
	for _, n := range numbers {
		if !s.Env.Redis.HExists(s.Context(), queue.Key(0, "leases"), string(s.ids[n])).Val() {
			continue // a mutation has left it in its line
		}
		s.Env.Edit(s.T, "leases", s.ids[n], func(text string) string {
			lease, head, _ := strings.Cut(text, "\n")
			words := strings.Split(lease, " ")
			at := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "teller:") }) - 2
			var started int64
			_, _ = fmt.Sscan(words[at], &started)
			words[at] = fmt.Sprint(started - d.Milliseconds())
			words[at-1] = words[at]
			return strings.Join(words, " ") + "\n" + head
		})
	}
}

// ahead moves the time of a key's rate, and that until which its lines are parked, as a clock that was ahead left them.
func (s *telling) ahead(key string, d time.Duration) {
	lines := queue.Key(0, "lines")
	words := strings.Fields(s.Env.Redis.HGet(s.Context(), lines+"keys", key).Val())
	if len(words) < 2 {
		return // a mutation has forgotten it
	}
	var next float64
	_, _ = fmt.Sscan(words[1], &next)
	words[1] = fmt.Sprintf("%.3f", next+float64(d.Milliseconds()))
	s.Env.Redis.HSet(s.Context(), lines+"keys", key, strings.Join(words, " "))
	s.Env.Redis.ZAddXX(s.Context(), lines+"parked", redis.Z{Score: next + float64(d.Milliseconds()), Member: key})
}

func (s *telling) tellLines() {
	s.inLine("a", job.Public, 0, 1, 2, 3)
	s.inLine("b", job.Public, 4, 5, 6, 7)
	s.next(2) // 0 and 1: no attempt of the tier has ended, so that nothing is charged
	s.ran(100*time.Second, 0, 1)
	s.write("complete", 0)
	s.write("complete", 1) // a was served 200 s
	s.next(1)              // 4: of b, that was not served at all
	s.ran(10*time.Second, 4)
	s.write("complete", 4)
	s.next(2) // 5 and 6: of b, each charged some 10 s
	s.ran(10*time.Second, 5, 6)
	s.write("release", 5) // at its own place, before 7
	s.write("fail", 6)
	s.age("scheduled", 1000*time.Hour)
	n, err := s.Env.Promote(s.Context(), 0)
	s.say("promote", n, err)
	s.inLine("c", job.Public, 8, 9) // it begins where b is, not in the past
	s.next(3)
	s.ran(20*time.Second, 5, 8)
	s.age("heartbeat_deadlines", time.Hour)
	s.look(job.Crashed)
	s.age("suspects:crashed", time.Minute)
	s.look(job.Crashed)
	s.next(20)
	for _, n := range []int{2, 3, 5, 6, 7, 8, 9} {
		s.write("complete", n)
	}
	s.inLine("b", job.Public, 10) // nobody waits: b is forgiven
	s.inLine("a", job.Public, 11)
	s.next(1)
	s.next(1)

	s.limit(job.LineLimits{Name: "a", Running: 2, Weight: 50})
	s.inLine("a", job.Paid, 12)
	s.inLine("a", job.Public, 13, 14)
	s.inLine("b", job.Public, 15)
	s.next(20)             // 12 and 15: 13 and 14 find two attempts of a
	s.cancel(14, 0)        // of a parked line
	s.write("release", 12) // its key has room for one: the better tier
	s.next(20)
	s.limit(job.LineLimits{Name: "a"})
	s.next(20)
	s.restore(living(s.ids[16], ran, func(r *job.JournalRow) { r.Line = "a" }))

	s.limit(job.LineLimits{Name: "d", Strict: true})
	s.inLine("d", job.Public, 17, 18)
	s.next(20)
	s.write("later", 17) // 18 waits behind it
	s.next(20)
	s.age("scheduled", 1000*time.Hour)
	n, err = s.Env.Promote(s.Context(), 0)
	s.say("promote", n, err)
	s.next(20)
	s.write("complete", 17)
	s.next(20)

	s.limit(job.LineLimits{Name: "e", Rate: 0.001, Burst: 2})
	s.inLine("e", job.Public, 19, 20, 21)
	s.next(20) // two of them
	s.ahead("e", 10*time.Hour)
	n, err = s.Env.Promote(s.Context(), 0) // the rate has the time that two starts now would give it
	s.say("promote", n, err)
	s.limit(job.LineLimits{Name: "e", Rate: 0.001, Burst: 3})
	s.next(20)
	s.limit(job.LineLimits{Name: "f", Waiting: 2, Paused: &job.LinePause{Until: time.Now().Add(time.Hour)}})
	s.inLine("f", job.Public, 22, 23, 24) // the last one finds the line full
	s.next(20)
	s.limit(job.LineLimits{Name: "f", Waiting: 2, Paused: &job.LinePause{Until: time.Now().Add(300 * time.Millisecond)}})
	s.next(20)
	<-time.After(350 * time.Millisecond)
	n, err = s.Env.Promote(s.Context(), 0)
	s.say("promote", n, err)
	s.next(20)

	s.inLine("x", job.Public, 27)
	s.inLine("y", job.Public, 28, 29, 30, 31)
	s.next(2)
	s.ran(time.Second, 27)
	s.write("complete", 27)
	s.ran(30*time.Second, 28)
	s.write("complete", 28)
	s.next(1) // 29: y was served 30 s, and nobody else waits
	s.ran(30*time.Second, 29)
	s.write("complete", 29)
	s.inLine("x", job.Public, 32, 33) // it is 30 s behind y, not 59
	s.next(1)
	s.ran(40*time.Second, 32)
	s.write("complete", 32)
	s.next(1) // 30: of y
	s.next(20)

	s.limit(job.LineLimits{Name: "p", Weight: 4})
	s.inLine("p", job.Unpaid, 34, 35, 36, 37, 38)
	s.inLine("q", job.Unpaid, 39, 40, 41, 42, 43)
	s.next(2)
	s.ran(10*time.Second, 34, 39)
	s.write("complete", 34)
	s.write("complete", 39)
	s.next(3) // all of p, which was charged 2.5 s each

	unique := func(n int, key string) {
		replies, err := s.Env.Submit(s.Context(), 0, []job.Submission{{ID: s.ids[n], Tier: job.Public, Type: "X",
			UniqueOn: job.UniqueReplace, Options: job.Options{Line: key, Unique: job.Unique(strings.Repeat("a", 32), "l")}}})
		s.say(fmt.Sprintf("submit %d into the line of %s, unique", n, key), replies[0].Word, err)
	}
	unique(25, "g")
	unique(26, "h")
	s.cancel(25, 0)
}

package queue_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
	"github.com/tierq/tierq/internal/queue/queuetest"
)

// logMutations are faults that only jobs show whose handlers log, or tell how far they are.
var logMutations = []mutation{
	{"log asks no token", "log", " and log.lease.token == token", "", false},
	{"log asks no attempt", "log", "log.lease.attempt == attempt and ", "", false},
	{"log adds a line twice", "log", "if number > log.last then", "if true then", true},
	{"log tells of no gap", "log", "if gap > 0 then", "if false then", true},
	{"log tells of the lost line only", "log", "(line == '' and 0 or 1)", "1", false},
	{"log goes on with the numbers of another attempt", "log",
		"is_same and tonumber(last_number) or 0", "tonumber(last_number or 0)", false},
	{"log forgets the bytes of a line", "log", "log.bytes + #line", "log.bytes", true},
	{"log writes no lease", "log",
		"redis.call('HSET', leases, id, extras.lease(lease, bytes, lease.progress, log.head))", "", true},
	{"log counts no bytes", "log", "change_counter(lease.class.tier, 'bytes', bytes - lease.log_bytes)", "", true},
	{"log forgets how far the job is", "log", "extras.lease(lease, bytes, lease.progress, log.head)",
		"extras.lease(lease, bytes, '', log.head)", false},
	{"a log is not bounded", "log", "bytes > most_bytes or redis.call('LLEN', logs .. id) > most_lines", "false", false},
	{"the bytes of a log are not bounded", "log", "bytes > most_bytes or", "", false},
	{"the lines of a log are not bounded", "log", "or redis.call('LLEN', logs .. id) > most_lines", "", false},
	{"a short log forgets what was lost", "log", "lost + tonumber(gap or 1)", "lost + 1", false},
	{"a short log keeps no beginning", "log",
		"for k = beginning, 1, -1 do", "for k = beginning, beginning + 1, -1 do", true},
	{"a short log keeps too many bytes", "log", "and bytes + #stored[n + 1] <= first_bytes", "", false},
	{"a short log weighs too much", "log", "bytes + #first_entries[1]", "bytes", true},
	{"a cancel is forgotten by a line", "prelude", "lease.cancel and ' cancel' or ''", "''", false},
	{"a charge is forgotten", "prelude", "lease.charge_word,\n    extras.format", "'',\n    extras.format", false},
	{"an end forgets the log", "prelude", "t.log_bytes, t.progress = lease.log_bytes, lease.progress",
		"t.progress = lease.progress", true},
	{"an end forgets how far the job was", "prelude", "t.log_bytes, t.progress = lease.log_bytes, lease.progress",
		"t.log_bytes = lease.log_bytes", false},
	{"tried forgets the log", "prelude", "text(t.crashes) .. extras.format(t.log_bytes, '')", "text(t.crashes)", true},
	{"an end weighs no log", "prelude", "bytes_of(head) + t.log_bytes", "bytes_of(head)", true},
	{"claim forgets the log", "claim", "extras.format(t.log_bytes, '')", "''", true},
	{
		"the same claim forgets the log", "claim", "        lease.options\n",
		"        lease.length_word .. lease.charge_word\n", true,
	},
	{"complete weighs no log", "complete", "add_outbox_bytes(#result + lease.log_bytes)", "add_outbox_bytes(#result)",
		true},
	{"complete counts no log", "complete", "+ checkpoint_bytes(checkpoints, id) + lease.log_bytes",
		"+ checkpoint_bytes(checkpoints, id)", true},
	{"complete forgets the log of a first attempt", "complete", "if tried_text or has_extras then", "if tried_text then",
		true},
	{"complete hides the log for its process", "complete", "and not has_extras", "", false},
	{"take_outbox takes no log", "take_outbox", "if log_bytes > 0 then", "if false then", false},
	{"acknowledge leaves the log", "acknowledge", "gone_keys[#gone_keys + 1] = logs .. id", "", true},
	{"acknowledge weighs no log", "acknowledge", "-#result - log_bytes", "-#result", true},
	{"heartbeat keeps no progress", "heartbeat", "bulk('HSET', leases, lease_entries)", "", false},
	{"heartbeat takes an old progress", "heartbeat", "if step <= stored_step then return false end", "", false},
	{
		"heartbeat takes an old progress of its call", "heartbeat", "latest[id] or lease.progress, '^", "lease.progress, '^",
		false,
	},
	{"heartbeat takes no progress without a step", "heartbeat",
		"if step == 0 then step = math.max(now, stored_step + 1) end",
		"", false},
	{"heartbeat forgets the log", "heartbeat", "extras.lease(lease, lease.log_bytes, latest",
		"extras.lease(lease, 0, new, head)", true},
}

// tellLogsWith is tellWith for jobs whose handlers log, or tell how far they are.
func tellLogsWith(t *testing.T, ids []job.ID, change func(*queue.Queue)) []string {
	t.Helper()
	e := queuetest.Embedded(t, func(o *queue.Options) {
		o.Nonce, o.Capacity, o.Journal, o.Embedded = "teller", 40, true, true
	})
	plans := e.Plans.All()
	plans[0].Lines = job.LinesKey
	e.Plans.Set(plans)
	change(e.Queue)
	s := &telling{T: t, Env: e, ids: ids, leases: map[int]job.LeaseRef{}}
	s.tellLogs()
	e.Broken(t)
	return slices.DeleteFunc(s.lines, func(line string) bool { // how long the attempts ran
		return strings.Contains(line, " left lines:tags:") || strings.Contains(line, " left lines:virtual ") ||
			strings.Contains(line, " left lines:spent:")
	})
}

// adds adds lines of a job's lease, of the numbers from..to and with texts of so many bytes.
func (s *telling) adds(n, from, to, bytes int) {
	l := job.Lease{Token: s.leases[n].Token}
	l.ID, l.Attempt = s.leases[n].ID, s.leases[n].Attempt
	for part := range slices.Chunk(logged(l, from, to, bytes), job.MaxBatch) {
		words, err := s.Env.Queue.Log(s.Context(), 0, part)
		s.quietly(fmt.Sprintf("log %d", n), words, err, to-from > 20)
	}
	left := s.Env.Snapshot(s.T).Logs[string(s.ids[n])]
	var read []job.LogLine
	for _, text := range left {
		l, _ := job.ReadLogLine(text)
		read = append(read, l)
	}
	s.say(fmt.Sprintf("log %d has %d lines", n, len(left)), numbersOf(read), nil)
}

// quietly says what a call answered, and what it left behind unless that would be much.
func (s *telling) quietly(what string, reply any, err error, isLong bool) {
	if !isLong {
		s.say(what, reply, err)
	} else if s.step++; err != nil {
		s.lines = append(s.lines, "error: "+err.Error())
	}
}

// lost says that the lines up to a number are lost.
func (s *telling) lost(n, number int) {
	words, err := s.Env.Queue.Log(s.Context(), 0, []job.LogEntry{{LeaseRef: s.leases[n], Number: number}})
	s.say(fmt.Sprintf("lost %d", n), words, err)
}

// reaches sends two heartbeats in one call, each with a progress.
func (s *telling) reaches(n int, steps ...int64) {
	var beats []job.Beat
	for _, step := range steps {
		beats = append(beats, job.Beat{LeaseRef: s.leases[n], Timeout: time.Minute, Step: step,
			Progress: job.NewProgress(10*step, 100, "a b")})
	}
	words, err := s.Env.Heartbeat(s.Context(), 0, beats)
	s.say(fmt.Sprintf("progress %d", n), words, err)
}

func (s *telling) took() {
	out, err := s.Env.TakeOutbox(s.Context(), 0, 100)
	var got []string
	for _, o := range out {
		got = append(got, fmt.Sprint(o.ID, " ", len(o.Log), " lines, progress ", o.Progress != nil))
	}
	slices.Sort(got)
	s.say("offered at once", got, err)
}

func (s *telling) tellLogs() {
	keyed := queuetest.Job(job.Paid)
	keyed.ID, keyed.TraceID, keyed.Owner, keyed.Line = s.ids[0], "trace", "ann", "k"
	s.puts(keyed)
	s.submit(1, job.Unpaid, 0)
	s.submit(2, job.Unpaid, 0)
	s.submit(3, job.Public, 0)
	s.next(4)
	s.reaches(0, 2, 1)
	s.reaches(0, 1)
	s.reaches(1, 1)
	s.reaches(1, 0)
	s.reaches(1, 0)
	s.adds(0, 1, 3, 2)
	s.adds(0, 2, 3, 2) // again
	s.adds(0, 6, 6, 2) // 4 and 5 are lost
	s.lost(0, 8)
	s.cancel(0, 0)
	s.adds(0, 9, 9, 2)
	s.reaches(0, 3)
	s.claim(s.number, 4) // the same again
	forged := s.leases[0]
	for _, change := range []func(*job.LeaseRef){
		func(r *job.LeaseRef) { r.Attempt++ }, func(r *job.LeaseRef) { r.Token = "forged:1" },
	} {
		r := forged
		change(&r)
		s.leases[0] = r
		s.adds(0, 10, 10, 2)
	}
	s.leases[0] = forged
	s.adds(2, 1, 1, 2)
	s.write("complete", 0) // CANCELLED
	s.write("complete", 1)
	s.write("complete", 2)
	s.took()
	s.drain(true)
	s.adds(3, 1, 2, 2)
	s.reaches(3, 1)
	s.write("fail", 3)
	s.next(1)
	s.adds(3, 1, 1, 2)
	s.write("release", 3)
	s.next(1)
	s.reap()
	s.adds(3, 1, 1, 2) // a zombie
	s.next(1)
	s.reaches(3, 5)
	s.write("fail", 3) // a dead letter
	s.drain(true)
	// Logs that are too long: of many lines, and of long ones.
	s.submit(4, job.Paid, 0)
	s.submit(5, job.Paid, 0)
	s.next(2)
	s.adds(4, 1, 2500, 3)
	s.adds(5, 1, 100, 4000)
	s.cancel(4, 0)
	s.write("fail", 4)
	s.write("complete", 5)
	s.drain(true)
	// A worker elsewhere sends its claim again, and its first lease is over.
	s.submit(6, job.Paid, 0)
	s.elsewhere("1")
	s.adds(6, 1, 2, 3)
	s.elsewhere("2")
	s.adds(6, 3, 3, 3)
}

// elsewhere claims for a worker elsewhere, under one id.
func (s *telling) elsewhere(delivery string) {
	reply, err := s.Env.Claim(s.Context(), 0, job.ClaimRequest{Max: 1, Bound: math.Inf(1), Elsewhere: &job.Elsewhere{
		Worker: "w", ID: "x", Delivery: delivery, Queues: []string{job.MainQueue}, Lease: time.Minute, Low: math.Inf(-1),
	}})
	for i := range reply.Leases {
		s.leases[slices.Index(s.ids, reply.Leases[i].ID)] = reply.Leases[i].Ref()
	}
	s.say("claim by id", len(reply.Leases), err)
}

// The same for the faults that only jobs show whose handlers log, or tell how far they are.
func TestMutationsOfLogsAreCaught(t *testing.T) {
	t.Parallel()
	caught(t, logMutations, tellLogsWith)
}

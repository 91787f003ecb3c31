package sim

import (
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// restoreWords is how many arguments restore has per job.
const restoreWords = 20

func (s *shadow) requeue(partition int, argv, texts []string) {
	now := s.w.ms()
	for i := 2; i < len(argv); i += restoreWords {
		id, word := job.ID(argv[i]), job.Word(texts[(i-2)/restoreWords])
		k := s.jobs[id]
		if k == nil && s.lost[id] == nil && s.w.sql.written[id].IsZero() {
			s.wrong("S3", "%s: requeued, and nobody submitted it", id)
			continue
		}
		generation := int(number(argv[i+1]))
		want := job.OK
		switch {
		case k == nil && now > number(argv[1]):
			want = job.Late
		case k == nil:
		case k.generation >= generation:
			want = job.Duplicate
		case !k.acked:
			want = job.Busy
		case now > number(argv[1]):
			want = job.Late
		}
		if word != want {
			s.wrong("S2", "%s %s: a restore as generation %d answers %s, not %s", id, k, generation, word, want)
		}
		if word == job.OK || word == job.Duplicate {
			delete(s.places, id)
		}
		if want != job.OK {
			continue
		}
		if k == nil {
			s.given(partition, argv[i:i+restoreWords])
			continue
		}
		if option := optionOf(argv[i+4]); option != k.unique {
			s.wrong("S25", "%s: requeued with the unique key %q, not %q", k, option, k.unique)
		}
		if line := lineIn(argv[i+4]); line != k.line {
			s.wrong("S27", "%s: requeued into the line of %q, not %q", k, line, k.line)
		}
		if argv[i+15] != k.queue {
			s.wrong("S3", "%s: requeued into the queue %s, not %s", k, argv[i+15], k.queue)
		}
		if letter := s.w.sql.letters[life{k.id, generation - 1}]; letter == nil || letter.RequestedAt.IsZero() {
			s.wrong("S3", "%s: requeued as generation %d, and nobody asked for that", k, generation)
		}
		s.clock[partition] = max(s.clock[partition], now)
		*k = known{
			id: k.id, owner: k.owner, queue: k.queue, line: k.line, unique: k.unique, input: k.input, generation: generation,
			status: job.Pending, arrived: s.clock[partition],
			attempt: max(k.attempt, int(number(argv[i+8]))), starts: k.starts,
			size: len(argv[i+7]), weight: len(argv[i+7]),
			tier: job.Plan{
				Tier: job.Tier(argv[i+2]), Priority: int(number(argv[i+3])), MaxRetries: int(number(strings.Fields(argv[i+4])[0])),
			},
		}
		if argv[i+14] != "" { // its cancel or kill was recorded before
			k.status = job.Status(argv[i+14])
		}
		s.requeued(k)
	}
}

// given handles a job that Redis got from its row and did not have before.
func (s *shadow) given(partition int, e []string) {
	now := s.w.ms()
	arrived := number(e[5])
	if arrived == 0 {
		arrived = max(now, s.clock[partition])
	}
	s.clock[partition] = max(s.clock[partition], arrived)
	k := &known{
		id: job.ID(e[0]), owner: strings.TrimPrefix(strings.Fields(e[4])[1], "-"), generation: int(number(e[1])),
		status: job.Pending, arrived: arrived,
		first: number(e[10]), attempt: int(number(e[8])), retries: int(number(e[9])), crashes: int(number(e[17])),
		tried:  e[10] != "0",
		starts: map[int]bool{}, size: len(e[7]), weight: len(e[7]), queue: e[15], input: inputOf(e[7]),
		line: lineIn(e[4]), unique: optionOf(e[4]), expires: expiryOf(strings.Fields(e[4])), there: now,
		tier: job.Plan{Tier: job.Tier(e[2]), Priority: int(number(e[3])), MaxRetries: int(number(strings.Fields(e[4])[0]))},
	}
	switch due := number(e[11]); {
	case e[12] != "" && e[12] != goneOwn && e[12] != goneLease:
		s.wrong("S1", "%s: it is given back as running by %q, and nothing notes that", k, e[12])
	case e[12] != "" && e[14] != string(job.NeedDiscard):
		k.status, k.cancel, k.costs = job.Processing, e[14] != "", 1
		k.lease = &lease{token: e[12], attempt: k.attempt, since: number(e[13]), beaten: now, beatEnd: now + number(e[18]),
			maxEnd: now + time.Hour.Milliseconds()}
		if ends := number(e[19]); ends > 0 {
			k.lease.maxEnd = max(ends, now+10_000)
		}
		s.w.fault("given as running")
	case e[14] != "": // its cancel or kill was recorded before
		k.status, k.killed, s.inputOver[k.input] = job.Status(e[14]), e[14] == string(job.NeedDiscard), true
	case due > now:
		k.status, k.due = job.Scheduled, due
	}
	if had := s.lost[k.id]; had != nil && k.unique == "" && k.line != had.line {
		s.wrong("S27", "%s: it is given back into the line of %q, not %q", k, k.line, had.line)
	}
	s.jobs[k.id] = k
	s.requeued(k)
	s.w.report.Faults["given"]++
}

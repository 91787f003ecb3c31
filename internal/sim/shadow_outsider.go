package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// byID is what Redis knows of an outsider's claim.
type byID struct {
	deliveries []string // the last one at the end
	ids        []job.ID
	left       time.Duration
}

const claimKept = time.Minute

// claimElsewhere checks a claim by id.
func (s *shadow) claimElsewhere(partition int, argv []string, reply any) {
	id, delivery := argv[1][1:], argv[8]
	at := fmt.Sprint(argv[0], " ", id, " ", partition)
	last, now := s.elsewhere[at], s.w.ms()
	want := ""
	switch {
	case now > number(argv[9]):
		want = string(job.Late)
	case last != nil && (slices.Contains(last.deliveries[:len(last.deliveries)-1], delivery) ||
		repeatOf(delivery) < repeatOf(last.deliveries[len(last.deliveries)-1])):
		want = string(job.Empty)
	}
	jobs, isWord := handedOut(reply)
	if list := strs(reply); isWord != (want != "") || isWord && list[0] != want {
		s.wrong("S5", "claim %s of %s, delivery %s, answers %q, not %q", id, argv[0], delivery, list, want)
	}
	if isWord {
		return
	}
	token := argv[0] + ":" + id + "." + delivery
	if last != nil {
		s.claimedAgain(last, token, argv, jobs)
		if last.left = claimKept; last.deliveries[len(last.deliveries)-1] != delivery {
			last.deliveries = append(last.deliveries, delivery)
		}
		return
	}
	var ids []job.ID
	for i := range jobs {
		ids = append(ids, jobs[i].id)
	}
	queues, most, limits := strings.Fields(argv[5]), int(number(argv[2])), readLimits(argv[11], argv[12])
	if s.meetsLines(partition, queues) {
		s.claimLines(partition, queues, most, limits, ids, reply)
	} else if best := s.inTimeOnly(s.best(partition, queues, argv[10], maxScore, most, limits), reply); !slices.Equal(ids,
		best) {
		s.wrong("S7 S8", "claim %s of %s takes %v, the best are %v", id, argv[0], ids, best)
	}
	for i := range jobs {
		s.claimedOne(nil, token, argv, &jobs[i])
	}
	if len(ids) > 0 {
		s.elsewhere[at] = &byID{[]string{delivery}, ids, claimKept}
		s.w.fault("claimed elsewhere")
	}
}

// repeatOf returns how often the worker had sent its claim before a delivery.
func repeatOf(delivery string) (n int) {
	_, _ = fmt.Sscanf(delivery, "%d-", &n)
	return n
}

// maxScore is above all scores: no outsider of a run asks for some tiers only.
const maxScore = 100 * base

// claimedAgain checks a repeat: it has those of the first answer's jobs that still run, under the token of the new
// delivery.
func (s *shadow) claimedAgain(last *byID, token string, argv []string, jobs []handed) {
	before := strings.Split(token, ".")[0] + "." + last.deliveries[len(last.deliveries)-1]
	var want, got []job.ID
	for _, id := range last.ids {
		if k := s.jobs[id]; k != nil && k.status == job.Processing && k.lease.token == before {
			want = append(want, id)
		}
	}
	for i := range jobs {
		got = append(got, jobs[i].id)
	}
	if !slices.Equal(want, got) {
		s.wrong("F27", "a claim asked again as %s has %v, and of the first answer %v run", token, got, want)
		return
	}
	for i := range jobs {
		k := s.jobs[jobs[i].id]
		text := strings.Replace(k.lease.text, " "+before, " "+token, 1)
		if bare(jobs[i].lease) != bare(text) || logIn(jobs[i].lease) != k.bytes ||
			jobs[i].checkpoint != string(k.saved) || jobs[i].crashes != k.crashes {
			s.wrong("F27", "%s: asked for again it has the lease %q, not %q", k, jobs[i].lease, text)
		}
		if token != before {
			k.lease.token, k.lease.text = token, text
			k.lease.beatEnd = s.w.ms() + number(argv[14]) // an outsider's leases live as long in every tier
			k.lease.beaten = s.w.ms()
		}
	}
}

// beginsElsewhere handles an outsider that begins a job.
func (s *shadow) beginsElsewhere(l *job.Lease) {
	var of payload
	k := s.of(l.ID)
	if err := json.Unmarshal(l.Payload, &of); err != nil || k != nil && of.Of != k.input {
		s.wrong("S18", "%s: an outsider gets the payload %s", l.ID, l.Payload)
	}
	switch k = s.jobs[l.ID]; {
	case k == nil: // Redis lost its lease meanwhile, or its end is forgotten
	case k.starts[l.Attempt] && s.lost[l.ID] == nil:
		s.wrong("S14", "%s: attempt %d starts twice", k, l.Attempt)
	default:
		k.starts[l.Attempt] = true
	}
}

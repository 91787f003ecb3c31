package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tierq/tierq/internal/job"
)

func (s *shadow) submit(partition int, argv, texts []string) {
	now := s.w.ms()
	late := now > number(argv[1])
	for i := 4; i < len(argv); i += 5 {
		id, text := job.ID(argv[i]), texts[(i-4)/5]
		word, rest, _ := strings.Cut(text, " ")
		kind := strings.Fields(argv[i+1]) // tier priority limit delay_ms max_retries quota
		delay, quota := number(kind[3]), strings.TrimPrefix(kind[5], "-")
		key, body, _ := strings.Cut(argv[i+4], " ")
		owner := ownerOf(argv[i+2])
		status := job.Pending
		if delay > 0 {
			status = job.Scheduled
		}
		first := s.once[fmt.Sprint(partition, key)]
		want := job.OK
		switch {
		case s.jobs[id] != nil && !(late && s.jobs[id].forgotten), key != "" && first != nil && first.Key == string(id):
			want = job.Duplicate
		case key != "" && first != nil && first.Body == body:
			want = job.Replay
		case key != "" && first != nil:
			want = job.Mismatch
		case late:
			want = job.Late
		case owner != "" && quota != "" && s.living(partition, owner) >= int(number(quota)):
			want = job.Quota
		case s.full(partition, planOf(kind[0]), status) != "":
			want = job.Full
			if limit := s.full(partition, planOf(kind[0]), status); job.Word(word) == want && rest != limit {
				s.wrong("S9", "submit of %s answers %q, and what is full is %s", id, text, limit)
			}
		}
		if job.Word(word) != want {
			s.wrong("S9 S13", "submit of %s answers %q, not %s", id, text, want)
		}
		if want != job.OK {
			continue
		}
		s.clock[partition] = max(s.clock[partition], now)
		if rest != fmt.Sprint(s.clock[partition]) {
			s.wrong("S15", "%s arrived at %s, not %d", id, rest, s.clock[partition])
		}
		s.jobs[id] = &known{
			id: id, tier: planKept(kind), owner: owner, generation: 1, status: status, arrived: s.clock[partition],
			due: now + delay, starts: map[int]bool{},
			size: len(argv[i+3]), weight: len(argv[i+3]),
		}
		if key != "" {
			s.once[fmt.Sprint(partition, key)] = &kept{job.Idempotency{Key: string(id), Body: body}, s.w.plan.keepKeys}
		}
	}
}

// ownerOf returns a job's owner from the words that a script gets about the job.
func ownerOf(about string) string { return strings.TrimPrefix(strings.Fields(about)[1], "-") }

func planOf(tier string) job.Plan {
	for _, p := range append(tiers(), added) {
		if string(p.Tier) == tier {
			return p
		}
	}
	return job.Plan{}
}

func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

func (s *shadow) claim(p *process, partition int, argv, texts []string) {
	n, most := number(argv[1]), int(number(argv[2]))
	at := fmt.Sprint(argv[0], " ", partition)
	last := s.claims[at]
	if last == nil {
		last = &claimed{}
		s.claims[at] = last
	}
	if len(texts) == 1 && texts[0] == string(job.Empty) {
		if n >= last.number {
			s.wrong("S5", "claim %d of %s answers EMPTY", n, argv[0])
		}
		return
	}
	var ids []job.ID
	for t := texts[1:]; len(t) >= 5; t = t[5:] {
		ids = append(ids, job.ID(t[0]))
	}
	if n == last.number { // a repeat of a lost answer: the leases of that claim that are still held
		for t := texts[1:]; len(t) >= 5; t = t[5:] {
			k := s.mustBe("F27", job.ID(t[0]), job.Processing)
			switch {
			case k == nil:
			case !slices.Contains(last.ids, k.id), k.lease.token != argv[0]+":"+argv[1]:
				s.wrong("F27", "%s: claim %d of %s hands it out again", k, n, argv[0])
			case t[3] != k.lease.counts:
				s.wrong("F27", "%s: claim %d of %s, asked again, says %q, not as before: %q", k, n, argv[0], t[3], k.lease.counts)
			}
		}
		return
	}
	if n < last.number {
		s.wrong("S5", "claim %d of %s answers leases after claim %d", n, argv[0], last.number)
	}
	var want []job.ID
	for _, k := range s.waiting(partition, job.Pending, (*known).score) {
		bound, err := strconv.ParseFloat(strings.TrimPrefix(argv[3], "+"), 64)
		if len(want) < most && (err != nil || k.score() <= bound) {
			want = append(want, k.id)
		}
	}
	if !slices.Equal(ids, want) {
		s.wrong("S7 S8", "claim %d of %s takes %v, the best are %v", n, argv[0], ids, want)
	}
	last.number, last.ids = n, ids
	for t := texts[1:]; len(t) >= 5; t = t[5:] {
		s.claimedOne(p, argv, t)
	}
}

// claimedOne checks one lease of a claim's answer: id, head, payload, counts, checkpoint.
func (s *shadow) claimedOne(p *process, argv, t []string) {
	k, now := s.mustBe("S2 S5", job.ID(t[0]), job.Pending), s.w.ms()
	if k == nil {
		return
	}
	if k.first == 0 {
		k.first = now
	}
	k.attempt++
	k.costs++
	counts := fmt.Sprint(k.attempt, " ", k.retries, " ", k.first, " ", now)
	if !k.tried && k.wished > 0 {
		counts += fmt.Sprint(" ", k.wished)
	}
	if t[3] != counts || t[4] != string(k.saved) {
		s.wrong("S4 S5 S15", "%s: claimed with %q, not %q, and the checkpoint %q", k, t[3], counts, t[4])
	}
	plan := slices.Index(argv, string(k.tier.Tier))
	if plan < 0 {
		plan = slices.Index(argv, "*") // the process does not know the tier yet
	}
	k.status, k.tried, k.ending, k.save = job.Processing, true, "", 0
	k.lease = &lease{
		token: argv[0] + ":" + argv[1], attempt: k.attempt, holder: p, counts: counts, beaten: now,
		beatEnd: now + number(argv[plan+1]), maxEnd: now + number(argv[plan+2]),
	}
	if k.costs > k.tier.MaxRetries+1 {
		s.wrong("S4", "%s: it costs %d attempts of at most %d", k, k.costs, k.tier.MaxRetries+1)
	}
}

func (s *shadow) heartbeat(argv, texts []string) {
	now := s.w.ms()
	for i := 0; i < len(argv); i += 6 {
		k, word := s.jobs[job.ID(argv[i])], job.Word(texts[i/6])
		want := job.Lost
		if k != nil && k.holds(argv[i+2], argv[i+1]) {
			want = job.OK
			if k.cancel {
				want = job.Cancel
			}
		}
		if word != want {
			s.wrong("S5 S11", "%s: a heartbeat of %s, attempt %s answers %s, not %s", argv[i], argv[i+2], argv[i+1], word, want)
		}
		if want == job.Lost {
			continue
		}
		k.lease.beaten, k.lease.beatEnd = now, max(k.lease.beatEnd, now+number(argv[i+3]))
		if save := int(number(argv[i+4])); save > k.save {
			k.save, k.saved = save, []byte(argv[i+5])
			k.weight = k.size + len(k.saved)
		}
	}
}

// holds says whether this is the stored lease of a running job.
func (k *known) holds(token, attempt string) bool {
	return k.status == job.Processing && k.lease.token == token && fmt.Sprint(k.lease.attempt) == attempt
}

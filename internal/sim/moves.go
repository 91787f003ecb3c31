package sim

import (
	"cmp"
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
		// tier queue max_retries owner max_run_ms priority limit delay_ms quota queue_limit
		line, kind := takeLine(strings.Fields(argv[i+1]))
		delay, quota := number(kind[7]), strings.TrimPrefix(kind[8], "-")
		key, body, _ := strings.Cut(argv[i+4], " ")
		owner := strings.TrimPrefix(kind[3], "-")
		status := job.Pending
		if delay > 0 {
			status = job.Scheduled
		}
		first := s.once[fmt.Sprint(partition, key)]
		want := job.OK
		asks := readAsking(kind)
		k := &known{
			id: id, tier: planKept(kind), owner: owner, queue: kind[1], generation: 1, status: status, unique: asks.unique,
			line:   line,
			starts: map[int]bool{}, size: len(argv[i+3]), weight: len(argv[i+3]), input: inputOf(argv[i+3]),
			expires: expiryOf(kind[10:]), there: now,
		}
		unique, behind := "", (*holding)(nil)
		holder := func() bool {
			if unique, behind = s.askHolder(k, asks, delay); behind != nil {
				status = job.Scheduled // as the limits count it
			}
			return unique != ""
		}
		switch {
		case s.jobs[id] != nil && !(late && s.jobs[id].forgotten), key != "" && first != nil && first.Key == string(id):
			want = job.Duplicate
		case key != "" && first != nil && first.Body == body:
			want = job.Replay
		case key != "" && first != nil:
			want = job.Mismatch
		case late:
			want = job.Late
		case holder():
			if text != unique {
				s.wrong("S25", "submit of %s on %s answers %q, not %s", id, asks.on, text, unique)
			}
			continue
		case owner != "" && quota != "" && s.living(partition, owner) >= int(number(quota)):
			want = job.Quota
		case s.full(partition, planOf(kind[0]), status) != "":
			want = job.Full
			if limit := s.full(partition, planOf(kind[0]), status); job.Word(word) == want && rest != limit {
				s.wrong("S9", "submit of %s answers %q, and what is full is %s", id, text, limit)
			}
		}
		if want == job.OK && behind != nil {
			want = job.IsHeld
		}
		if job.Word(word) != want {
			s.wrong("S9 S13 S25", "submit of %s answers %q, not %s", id, text, want)
		}
		if want != job.OK && want != job.IsHeld {
			continue
		}
		s.clock[partition] = max(s.clock[partition], now)
		if rest != fmt.Sprint(s.clock[partition]) {
			s.wrong("S15", "%s arrived at %s, not %d", id, rest, s.clock[partition])
		}
		k.arrived, k.due = s.clock[partition], now+delay
		s.jobs[id] = k
		if k.unique != "" {
			s.accepted(k, asks.on, behind)
		}
		if key != "" {
			s.once[fmt.Sprint(partition, key)] = &kept{job.Idempotency{Key: string(id), Body: body}, s.w.plan.keepKeys}
		}
	}
}

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

// handed is a job of a claim's answer.
type handed struct {
	id                        job.ID
	lease, record, checkpoint string
	crashes                   int
}

// handedOut reads a claim's answer: next, then the different leases, and of each job which of them it has, its id and
// its record; then the checkpoints by id, and at the end the crashes by id.
func handedOut(reply any) (jobs []handed, empty bool) {
	list, _ := reply.([]any)
	if len(list) < 9 {
		return nil, true
	}
	leases, which, ids, records, saved := strs(list[1]), strs(list[2]), strs(list[3]), strs(list[4]), strs(list[5])
	crashed := strs(list[8])
	for i, id := range ids {
		h := handed{id: job.ID(id), lease: leases[number(which[i])-1], record: records[i]}
		for k := 0; k+1 < len(saved); k += 2 {
			if saved[k] == id {
				h.checkpoint = saved[k+1]
			}
		}
		for k := 0; k+1 < len(crashed); k += 2 {
			if crashed[k] == id {
				h.crashes = int(number(crashed[k+1]))
			}
		}
		jobs = append(jobs, h)
	}
	return jobs, false
}

func (s *shadow) claim(p *process, partition int, argv []string, reply any) {
	n, most := number(argv[1]), int(number(argv[2]))
	at := fmt.Sprint(argv[0], " ", partition)
	last := s.claims[at]
	if last == nil {
		last = &claimed{}
		s.claims[at] = last
	}
	jobs, empty := handedOut(reply)
	if empty {
		if n >= last.number {
			s.wrong("S5", "claim %d of %s answers EMPTY", n, argv[0])
		}
		return
	}
	var ids []job.ID
	for i := range jobs {
		ids = append(ids, jobs[i].id)
	}
	if n == last.number { // a repeat of a lost answer: the leases of that claim that are still held
		for _, h := range jobs {
			k := s.mustBe("F27", h.id, job.Processing)
			switch {
			case k == nil:
			case !slices.Contains(last.ids, k.id), k.lease.token != argv[0]+":"+argv[1]:
				s.wrong("F27", "%s: claim %d of %s hands it out again", k, n, argv[0])
			case bare(h.lease) != bare(k.lease.text):
				s.wrong("F27", "%s: claim %d of %s, asked again, says %q, not as before: %q", k, n, argv[0], h.lease, k.lease.text)
			}
		}
		return
	}
	if n < last.number {
		s.wrong("S5", "claim %d of %s answers leases after claim %d", n, argv[0], last.number)
	}
	bound, err := strconv.ParseFloat(argv[3], 64)
	if err != nil {
		s.wrong("S7", "claim %d of %s has the bound %q", n, argv[0], argv[3])
	}
	limits := readLimits(argv[11], argv[12])
	queues := strings.Fields(argv[5])
	if s.meetsLines(partition, queues) {
		s.claimLines(partition, queues, most, limits, ids, reply)
	} else if want := s.inTimeOnly(s.best(partition, queues, argv[10], bound, most, limits), reply); !slices.Equal(ids,
		want) {
		s.wrong("S7 S8", "claim %d of %s takes %v, the best are %v", n, argv[0], ids, want)
	}
	last.number, last.ids = n, ids
	for i := range jobs {
		if k := s.jobs[jobs[i].id]; k != nil {
			s.heldBack(p, k)
		}
		s.claimedOne(p, argv[0]+":"+argv[1], argv, &jobs[i])
	}
	s.passedOver(partition, queues, limits, reply.([]any))
}

// best returns the jobs that a claim over some queues takes. The queue with the best job comes first, or in the order
// 'named' the first one with a job of the best tier, until it has no other job of that tier; of several equal ones, the
// queue that is named first. Jobs beyond the limits are passed over.
func (s *shadow) best(partition int, queues []string, order string, bound float64, most int,
	limits *limits) (ids []job.ID) {
	goesFirst := func(a, b *known) bool {
		return a.score() < b.score() && (order != "named" || a.tier.Priority < b.tier.Priority)
	}
	ready := map[string][]*known{}
	for _, k := range s.waiting(partition, job.Pending, (*known).score) {
		if k.score() <= bound {
			ready[k.queue] = append(ready[k.queue], k)
		}
	}
	for len(ids) < most {
		next := ""
		for _, q := range queues {
			for len(ready[q]) > 0 && limits.room(ready[q][0].tier.Priority) == 0 {
				ready[q] = ready[q][1:] // it is paused, or there is no slot for it
			}
			if len(ready[q]) > 0 && (next == "" || goesFirst(ready[q][0], ready[next][0])) {
				next = q
			}
		}
		if next == "" {
			break
		}
		priority := ready[next][0].tier.Priority
		for len(ids) < most && len(ready[next]) > 0 && ready[next][0].tier.Priority == priority && limits.room(priority) > 0 {
			limits.take(priority)
			ids, ready[next] = append(ids, ready[next][0].id), ready[next][1:]
		}
	}
	return ids
}

// claimedOne checks one job of a claim's answer. p is its holder; nil = an outsider.
func (s *shadow) claimedOne(p *process, token string, argv []string, h *handed) {
	k, now := s.mustBe("S2 S5", h.id, job.Pending), s.w.ms()
	if k == nil {
		return
	}
	if k.first == 0 {
		k.first = now
	}
	s.w.inOrder(k)
	k.attempt++
	k.costs++
	class := fmt.Sprintf("%s %s %d %d %s 0", k.tier.Tier, k.queue, k.generation, k.tier.MaxRetries, cmp.Or(k.owner, "-"))
	class += k.lineOption() + k.classOption() + k.option()
	text := fmt.Sprintf("%s %d %d %d %d %d %s", class, k.attempt, k.retries, k.first, now, k.wished, token)
	plan := slices.Index(argv, string(k.tier.Tier))
	if plan < 0 {
		plan = slices.Index(argv, "*") // the process does not know the tier yet
	}
	text += " for=" + argv[plan+1] + s.charge(k, bare(h.lease))
	if k.bytes > 0 {
		text += fmt.Sprint(" log=", k.bytes)
	}
	if h.lease != text || h.checkpoint != string(k.saved) || !strings.HasPrefix(h.record, class+"\n") ||
		h.crashes != k.crashes {
		s.wrong("S4 S5 S15", "%s: claimed with %q, not %q, the checkpoint %q and %d crashes", k, h.lease, text, h.checkpoint,
			h.crashes)
	}
	if text := h.record[strings.LastIndex(h.record, "\n")+1:]; inputOf(text) != k.input {
		s.wrong("S18 S25", "%s: claimed with the payload %s, not that of %s", k, text, k.input)
	}
	k.status, k.tried, k.ending, k.save, k.step = job.Processing, true, "", 0, 0
	s.startsOf(k)
	s.onlyHolder(k)
	if s.inputOver[k.input] = true; k.while() == job.WhileWaiting {
		s.letsGo(k)
	}
	k.lease = &lease{
		token: token, attempt: k.attempt, holder: p, text: text, since: now, beaten: now,
		beatEnd: now + number(argv[plan+1]), maxEnd: now + number(argv[plan+2]),
	}
	if k.costs > k.tier.MaxRetries+1 {
		s.wrong("S4", "%s: it costs %d attempts of at most %d", k, k.costs, k.tier.MaxRetries+1)
	}
}

func (s *shadow) heartbeat(argv, texts []string) {
	now := s.w.ms()
	for i := 0; i < len(argv); i += 8 {
		k, word := s.jobs[job.ID(argv[i])], job.Word(texts[i/8])
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
			k.weight = k.size + len(k.saved) + k.bytes
		}
		k.tells(number(argv[i+6]), argv[i+7])
	}
}

// holds says whether this is the stored lease of a running job.
func (k *known) holds(token, attempt string) bool {
	return k.status == job.Processing && k.lease.token == token && fmt.Sprint(k.lease.attempt) == attempt
}

package worker

import (
	"encoding/json"
	"slices"
	"time"
)

// What the server answers. A member that has another form than it should costs as little as possible: each entry of a
// list is then read by itself. Most answers are as they should be, and are read in one pass.

// reader is an answer that reads its text by itself.
type reader interface{ read(text []byte) error }

// held is how long the server held a call. The times of an answer count from the call's being sent and held.
type held struct {
	HeldMs lenient[float64] `json:"heldMs"`
}

// since returns the time from which the times of an answer count. It is not later than now, whatever the server says.
func (h held) since(sent time.Time) time.Time {
	most := float64(time.Since(sent) / time.Millisecond)
	return sent.Add(ms(int64(min(max(h.HeldMs.v, 0), most))))
}

// claimAnswer is the answer to a claim. A job that cannot be read is nil, and so is the answer to a report.
type claimAnswer struct {
	held
	State        string      `json:"state"`
	RetryAfterMs float64     `json:"retryAfterMs"`
	Reported     []*reported `json:"reported"`
	Jobs         []*claimed  `json:"jobs"`
}

func (a *claimAnswer) read(text []byte) error {
	type plain claimAnswer // without this method
	if json.Unmarshal(text, (*plain)(a)) == nil && !slices.ContainsFunc(a.Jobs, (*claimed).lacks) {
		return nil
	}
	var l struct {
		held
		State        lenient[string]            `json:"state"`
		RetryAfterMs lenient[float64]           `json:"retryAfterMs"`
		Reported     lenient[[]json.RawMessage] `json:"reported"`
		Jobs         lenient[[]json.RawMessage] `json:"jobs"`
	}
	if err := json.Unmarshal(text, &l); err != nil {
		return err
	}
	*a = claimAnswer{
		held: l.held, State: l.State.v, RetryAfterMs: l.RetryAfterMs.v,
		Reported: each(l.Reported.v, readReported), Jobs: each(l.Jobs.v, readClaimed),
	}
	return nil
}

// reportAnswer is the answer to reports.
type reportAnswer struct {
	Reports []*reported `json:"reports"`
}

func (a *reportAnswer) read(text []byte) error {
	type plain reportAnswer
	if json.Unmarshal(text, (*plain)(a)) == nil {
		return nil
	}
	var l struct {
		Reports lenient[[]json.RawMessage] `json:"reports"`
	}
	if err := json.Unmarshal(text, &l); err != nil {
		return err
	}
	a.Reports = each(l.Reports.v, readReported)
	return nil
}

// each reads the entries of a list.
func each[T any](texts []json.RawMessage, read func(json.RawMessage) *T) []*T {
	all := make([]*T, len(texts))
	for i, text := range texts {
		all[i] = read(text)
	}
	return all
}

// claimed is a job in the answer to a claim.
type claimed struct {
	Job
	lease
}

// lacks says whether a job lacks something, or may do so.
func (j *claimed) lacks() bool {
	return j == nil || j.Sealed == "" || j.ID == "" || j.Type == "" || j.LeaseForMs <= 0 || j.LeaseForMs > mostMs ||
		j.HeartbeatEveryMs <= 0 || j.HeartbeatEveryMs > mostMs || j.EndsInMs <= 0 || j.EndsInMs > mostMs
}

// mostMs is more than any number of milliseconds that a server answers.
const mostMs = 1_000_000_000_000

// readClaimed reads a job; nil if the worker cannot run it.
func readClaimed(text json.RawMessage) *claimed {
	j := &claimed{lease: lease{LeaseForMs: -1, HeartbeatEveryMs: -1, EndsInMs: -1}}
	if json.Unmarshal(text, j) != nil || j.Sealed == "" || j.ID == "" || j.Type == "" {
		return nil
	}
	for _, n := range []int64{j.LeaseForMs, j.HeartbeatEveryMs, j.EndsInMs} {
		if n < 0 || n > mostMs {
			return nil
		}
	}
	return j
}

// beatAnswer is the answer to a heartbeat.
type beatAnswer struct {
	held
	State  lenient[string]            `json:"state"`
	Leases lenient[[]json.RawMessage] `json:"leases"`
}

// pulse is the answer to an entry. Error says why the checkpoint or the progress was not taken.
type pulse struct {
	Word       string   `json:"word"`
	LeaseForMs int64    `json:"leaseForMs"`
	Error      *refusal `json:"error,omitempty"`
}

// pulse returns the answer to an entry; nil if it is not understood.
func (b *beatAnswer) pulse(i int) *pulse {
	var p pulse
	switch {
	case i >= len(b.Leases.v) || json.Unmarshal(b.Leases.v[i], &p) != nil:
		return nil
	case p.Word == "LOST", (p.Word == "OK" || p.Word == "CANCEL") && p.LeaseForMs > 0 && p.LeaseForMs <= mostMs:
		return &p
	}
	return nil
}

// lacks says whether any of the entries of a heartbeat has no answer that is understood.
func (b *beatAnswer) lacks(entries int) bool {
	for i := range entries {
		if b.pulse(i) == nil {
			return true
		}
	}
	return false
}

// reported is the server's answer to one report.
type reported struct {
	Outcome string   `json:"outcome"`
	Error   *refusal `json:"error"`
}

// readReported reads the answer to a report; nil if it is not understood.
func readReported(text json.RawMessage) *reported {
	var r reported
	if json.Unmarshal(text, &r) != nil {
		return nil
	}
	return &r
}

// understood says whether an answer to a report says anything.
func (r *reported) understood() bool { return r != nil && (r.Outcome != "" || r.Error != nil) }

// leases remembers the leases that were handed out last, at least most of them.
type leases struct{ last, before map[string]bool }

const mostLeases = 10_000

// first says whether a lease is new, and remembers it.
func (l *leases) first(lease string) bool {
	if l.last[lease] || l.before[lease] {
		return false
	}
	if len(l.last) >= mostLeases {
		l.last, l.before = nil, l.last
	}
	if l.last == nil {
		l.last = map[string]bool{}
	}
	l.last[lease] = true
	return true
}

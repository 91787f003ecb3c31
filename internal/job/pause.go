package job

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// The errors of pauses.
var (
	ErrBadScope = errors.New("this cannot be paused") // the text after it says why
	ErrPaused   = errors.New("submits are refused during a pause")
)

// PauseAll is the scope of a pause of all jobs.
const PauseAll = "all"

// PauseTier returns the scope of a pause of a tier.
func PauseTier(t Tier) string { return "tier:" + string(t) }

// PauseQueue returns the scope of a pause of a queue.
func PauseQueue(name string) string { return "queue:" + name }

// IsPauseScope says whether a pause can have this scope: PauseAll, or that of some tier or queue.
func IsPauseScope(scope string) bool {
	kind, name, _ := strings.Cut(scope, ":")
	return scope == PauseAll || kind == "tier" && tierName.MatchString(name) || kind == "queue" && IsQueueName(name)
}

// Pause says that claims find none of some jobs. Those that run already run on.
type Pause struct {
	Scope  string // PauseAll, or what PauseTier or PauseQueue returned
	Since  time.Time
	Until  time.Time // the pause ends by itself then; zero = it does not
	By     string    // who asked for it; "" = not known
	Reason string    // "" = none was given
	Refuse bool      // submits of such jobs are refused too
}

// Over says whether the pause has ended by itself.
func (p *Pause) Over(now time.Time) bool { return !p.Until.IsZero() && !p.Until.After(now) }

// Tier returns the tier that is paused, if the scope is a tier.
func (p *Pause) Tier() (t Tier, is bool) {
	kind, name, _ := strings.Cut(p.Scope, ":")
	return Tier(name), kind == "tier"
}

// What names what is paused.
func (p *Pause) What() string {
	kind, name, _ := strings.Cut(p.Scope, ":")
	switch kind {
	case "tier":
		return name
	case "queue":
		return "queue " + name
	}
	return "everything"
}

// Words says that it is paused, since and until when, by whom and why.
func (p *Pause) Words() string {
	words := p.What() + " is paused"
	if p.By != "" {
		words += " by " + p.By
	}
	words += " since " + p.Since.UTC().Format(time.RFC3339)
	if !p.Until.IsZero() {
		words += " until " + p.Until.UTC().Format(time.RFC3339)
	}
	if p.Reason != "" {
		words += ": " + p.Reason
	}
	return words
}

// pauseText is a pause as the stores have it, with times in ms.
type pauseText struct {
	Scope  string `json:"scope"`
	Since  int64  `json:"since"`
	Until  int64  `json:"until,omitempty"`
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
	Refuse bool   `json:"refuse,omitempty"`
}

// MarshalJSON encodes the pause as the stores have it.
func (p Pause) MarshalJSON() ([]byte, error) {
	t := pauseText{Scope: p.Scope, Since: p.Since.UnixMilli(), By: p.By, Reason: p.Reason, Refuse: p.Refuse}
	if !p.Until.IsZero() {
		t.Until = p.Until.UnixMilli()
	}
	return json.Marshal(t)
}

// UnmarshalJSON decodes what MarshalJSON encodes.
func (p *Pause) UnmarshalJSON(text []byte) error {
	var t pauseText
	if err := json.Unmarshal(text, &t); err != nil {
		return err
	}
	if !IsPauseScope(t.Scope) {
		return fmt.Errorf("%w: %q", ErrBadScope, t.Scope)
	}
	*p = Pause{Scope: t.Scope, Since: time.UnixMilli(t.Since).UTC(), By: t.By, Reason: t.Reason, Refuse: t.Refuse}
	if t.Until > 0 {
		p.Until = time.UnixMilli(t.Until).UTC()
	}
	return nil
}

// Equal says whether two pauses are the same in all fields.
func (p Pause) Equal(o Pause) bool {
	return p.Scope == o.Scope && p.Since.Equal(o.Since) && p.Until.Equal(o.Until) && p.By == o.By &&
		p.Reason == o.Reason && p.Refuse == o.Refuse
}

// Pauses are the pauses in force, by scope. Version grows by one with each pause and each resumption.
type Pauses struct {
	List    []Pause
	Version int64
}

// PauseBook has the pauses that this process read last. The zero PauseBook has none. It is safe for concurrent use.
type PauseBook struct{ pauses atomic.Pointer[Pauses] }

// Set replaces the pauses, and says whether anything has changed.
func (b *PauseBook) Set(p Pauses) bool {
	p.List = slices.Clone(p.List)
	slices.SortFunc(p.List, func(a, b Pause) int { return cmp.Compare(a.Scope, b.Scope) })
	before := b.pauses.Swap(&p)
	if before == nil {
		before = &Pauses{}
	}
	return before.Version != p.Version || !slices.EqualFunc(before.List, p.List, Pause.Equal)
}

// All returns the pauses in force as they were last read.
func (b *PauseBook) All() Pauses {
	if p := b.pauses.Load(); p != nil {
		return Pauses{slices.Clone(p.List), p.Version}
	}
	return Pauses{}
}

// Find returns the pause of a scope, if it is in force.
func (b *PauseBook) Find(scope string) (Pause, bool) {
	p := b.pauses.Load()
	if p == nil {
		return Pause{}, false
	}
	for i := range p.List {
		if p.List[i].Scope == scope {
			return p.List[i], true
		}
	}
	return Pause{}, false
}

// Of returns a pause of the jobs of a tier in a queue, if one is in force: that of all jobs, of the queue or of the
// tier.
func (b *PauseBook) Of(queue string, t Tier) (Pause, bool) {
	return b.first(queue, t, func(*Pause) bool { return true })
}

// Refusing is Of for pauses that refuse submits.
func (b *PauseBook) Refusing(queue string, t Tier) (Pause, bool) {
	return b.first(queue, t, func(p *Pause) bool { return p.Refuse })
}

func (b *PauseBook) first(queue string, t Tier, counts func(*Pause) bool) (Pause, bool) {
	p := b.pauses.Load()
	if p == nil || len(p.List) == 0 {
		return Pause{}, false
	}
	for _, scope := range []string{PauseAll, PauseQueue(queue), PauseTier(t)} {
		if found, on := b.Find(scope); on && counts(&found) {
			return found, true
		}
	}
	return Pause{}, false
}

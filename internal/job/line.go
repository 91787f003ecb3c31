package job

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Lines says which jobs of a tier wait in lines, one line per key and queue, which share the worker time.
type Lines string

// Which jobs.
const (
	LinesOff   Lines = "off"   // none
	LinesKey   Lines = "key"   // all: by the key that the submit says; those without a key share a line
	LinesOwner Lines = "owner" // all: by the key, or else by the API key that submits
)

func (l Lines) known() bool { return l == "" || l == LinesOff || l == LinesKey || l == LinesOwner }

// On says whether the tier's jobs wait in lines. The zero value is LinesOff.
func (l Lines) On() bool { return l == LinesKey || l == LinesOwner }

// LineFor returns the name of the line in which a job of the plan's tier waits, which named a line or none (""), and
// has an owner or none; "" = in no line.
func (p Plan) LineFor(line, owner string) string {
	switch {
	case line != "" || !p.Lines.On():
		return line
	case p.Lines == LinesOwner:
		return LineOfOwner(owner)
	}
	return NoKey
}

// MaxLineKey is how many bytes a key of lines has at most.
const MaxLineKey = 128

// NoKey is the name of the line that the jobs without a key share.
const NoKey = "@"

// LineOf returns the name of a key of lines. Names have none of the characters that the texts in Redis have between
// their words. Every name decodes to its key, so that two keys never share one.
func LineOf(key string) string {
	var b strings.Builder
	for i := range len(key) {
		switch c := key[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// LineOfOwner returns the name of the line of the jobs that an API key submits without a key of lines.
func LineOfOwner(owner string) string {
	if owner == "" {
		return NoKey
	}
	return NoKey + LineOf(owner)
}

// LineKey is the reverse of LineOf and LineOfOwner: exactly one of key and owner is not empty, neither for NoKey.
func LineKey(name string) (key, owner string, err error) {
	text, isOwner := strings.CutPrefix(name, NoKey)
	if text, err = url.PathUnescape(text); err != nil {
		return "", "", fmt.Errorf("name of a line %q: %w", name, err)
	}
	if isOwner {
		return "", text, nil
	}
	return text, "", nil
}

// homeOfLine returns the hash that chooses the partition of all jobs of a key of lines; "" for a line of jobs without a
// key, which may be in any partition.
func homeOfLine(name string) string {
	if name == "" || strings.HasPrefix(name, NoKey) {
		return ""
	}
	sum := sha256.Sum256([]byte("line\x00" + name))
	return hex.EncodeToString(sum[:HomeDigits])
}

// LineHasHome says whether all jobs of a key of lines are in one partition, so that its limits hold for all of them.
// Those of jobs without a key are not.
func LineHasHome(name string) bool { return homeOfLine(name) != "" }

// HomesOfLine returns the partitions that have jobs of a key of lines.
func HomesOfLine(name string, partitions int) []int {
	if home := homeOfLine(name); home != "" {
		return []int{Home(home, partitions)}
	}
	all := make([]int, partitions)
	for p := range all {
		all[p] = p
	}
	return all
}

// ErrBadLimits means that limits of a key of lines are not valid; the text after it says why.
var ErrBadLimits = errors.New("limits of a line")

// LineLimits are what an operator allows a key of lines, in all its lines together. The zero value of a member is no
// limit.
type LineLimits struct {
	Name    string  // of the key, see LineOf
	Running int     // so many of its attempts run at the same time, at most
	Weight  int     // its share of a tier's worker time, beside the weights of the other keys; 0 is 1
	Rate    float64 // so many attempts start per second on average, at most
	Burst   int     // so many of them at once, with Rate; 0 is 1
	Waiting int     // so many jobs are ready in one of its lines, at most; delayed jobs do not count until they are due
	Strict  bool    // in each partition one attempt after the other, in the order of arrival, also through retries
	Paused  *LinePause
	Version int64 // grows by one with each change
}

// LinePause says that no attempt of a key starts.
type LinePause struct {
	Since, Until time.Time // no Until = it does not end by itself
	By, Reason   string
}

// Over says whether the pause has ended by itself.
func (p *LinePause) Over(now time.Time) bool { return !p.Until.IsZero() && !p.Until.After(now) }

// The bounds of limits.
const (
	MaxLineWeight = 1000
	maxLineNumber = 1_000_000
	minLineRate   = 0.001
	maxLineRate   = 10_000
)

// None says whether there is no limit.
func (l *LineLimits) None() bool {
	return l.Running == 0 && l.Weight <= 1 && l.Rate == 0 && l.Waiting == 0 && !l.Strict && l.Paused == nil
}

// Check returns ErrBadLimits, with the reason, for limits that are not valid.
func (l *LineLimits) Check() error {
	bad := func(format string, a ...any) error {
		return fmt.Errorf("%w: %s", ErrBadLimits, fmt.Sprintf(format, a...))
	}
	switch {
	case l.Running < 0 || l.Running > maxLineNumber:
		return bad("running %d is not in 0..%d", l.Running, maxLineNumber)
	case l.Weight < 0 || l.Weight > MaxLineWeight:
		return bad("weight %d is not in 0..%d", l.Weight, MaxLineWeight)
	case l.Rate != 0 && (l.Rate < minLineRate || l.Rate > maxLineRate):
		return bad("rate %g is neither 0 nor in %g..%d a second", l.Rate, minLineRate, maxLineRate)
	case l.Burst < 0 || l.Burst > maxLineNumber:
		return bad("burst %d is not in 0..%d", l.Burst, maxLineNumber)
	case l.Burst > 0 && l.Rate == 0:
		return bad("burst goes with rate")
	case l.Waiting < 0 || l.Waiting > maxLineNumber:
		return bad("waiting %d is not in 0..%d", l.Waiting, maxLineNumber)
	}
	return nil
}

// LinePlace is a job's place in its line.
type LinePlace struct {
	Name    string
	Ahead   int64     // jobs of the line before it
	Running int       // attempts of the key that run, in the partition
	Limits  string    // the limits of the key as Redis has them; "" = none
	Parked  bool      // the key may not start an attempt now
	Until   time.Time // with Parked: when it may; zero = when an attempt of the key ends, or an operator allows it
	Rate    float64   // so many of its attempts ended per second in the last five minutes; 0 = none
}

// LineOrder says which lines come first.
type LineOrder string

// The values of LineOrder.
const (
	ByWaiting LineOrder = "waiting" // those with the most jobs
	ByRunning LineOrder = "running" // those of the keys with the most running attempts
	ByShare   LineOrder = "share"   // those that had the most of their tier's worker time
)

// LineFilter says which lines are asked for; an empty member means any.
type LineFilter struct {
	Name  string // of the key
	Tier  Tier
	Queue string
	Order LineOrder // "" = ByWaiting
}

// LineNow is a line that has jobs. Running counts the attempts of its key, in all its lines.
type LineNow struct {
	Name    string // of the key
	Tier    Tier
	Queue   string
	Waiting int64
	Running int
	Share   float64   // of the worker time that all lines of its tier had in the last five minutes, 0 to 1
	Parked  bool      // its key may not start an attempt now
	Until   time.Time // with Parked: when it may; zero = when an attempt of the key ends, or an operator allows it
}

// Noisy says whether the line had more than a tenth of its tier's worker time in the last five minutes, and thirty
// attempts of its key or more run.
func (l *LineNow) Noisy() bool { return l.Running >= 30 && l.Share > 0.1 }

// LinesNow are some lines, how many there are, and how many attempts of keys of lines run.
type LinesNow struct {
	Items   []LineNow
	Lines   int64
	Running int
}

package auth

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/tierq/tierq/internal/job"
)

const (
	maxName     = 100
	maxList     = 100 // tiers, types or queues of a key
	maxRate     = 1e6
	minRate     = 1e-3 // a lower rate than one request in a thousand seconds is a mistake
	maxInFlight = 1e9
	maxLeases   = 100_000
	century     = 100 * 365 * 24 * time.Hour
)

var tierName = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,30}$`)

// check returns a *job.PayloadError for a key that cannot be made.
func check(k *job.Key, now time.Time) error {
	bad := func(field, reason string) error { return &job.PayloadError{Field: field, Reason: reason} }
	switch {
	case !plain(k.Name):
		return bad("name", "wants 1 to 100 characters that can be seen, in their normal form, with single spaces between words")
	case !slices.Contains(job.Roles, k.Role):
		return bad("role", "is none: use submit, read-only, admin or worker")
	case len(k.Tiers) > maxList || !each(k.Tiers, func(t job.Tier) bool { return tierName.MatchString(string(t)) }):
		return bad("tiers", "wants at most 100 different names of tiers: capital letters, digits and _, at most 31")
	case len(k.Types) > maxList || !each(k.Types, job.IsTypeName):
		return bad("types", "wants at most 100 different job types; a job type "+job.TypeNameRule)
	case len(k.Queues) > maxList || !each(k.Queues, job.IsQueueBound):
		return bad("queues", "wants at most 100 different names of queues: A-Z a-z 0-9 . _ : -, at most 80, and * behind "+
			"one that stands for all queues whose name begins so")
	case k.Role == job.RoleReadOnly && len(k.Tiers) > 0:
		return bad("tiers", "are for keys that submit, and for workers")
	case len(k.Types) > 0 && !(&job.Caller{Key: *k}).Submits():
		return bad("types", "are for keys that submit")
	case k.Role != job.RoleWorker && len(k.Queues) > 0:
		return bad("queues", "are for keys of the role worker")
	case k.Role != job.RoleWorker && k.Submits:
		return bad("submits", "is for keys of the role worker")
	case k.Role != job.RoleWorker && k.Leases != 0:
		return bad("leases", "are for keys of the role worker")
	case k.Leases < 0 || k.Leases > maxLeases:
		return bad("leases", "must be 0 to 100000, where 0 means any number")
	case math.IsNaN(k.Rate) || k.Rate != 0 && (k.Rate < minRate || k.Rate > maxRate):
		return bad("rate", "must be 0.001 to 1000000 requests a second, or 0 for any number")
	case k.Burst < 0 || k.Burst > maxRate:
		return bad("burst", "must be 0 to 1000000")
	case k.Burst > 0 && k.Rate == 0:
		return bad("burst", "means nothing without a rate")
	case k.InFlight < 0 || k.InFlight > maxInFlight:
		return bad("inFlight", "must be 0 to 1000000000")
	case !k.ExpiresAt.IsZero() && !k.ExpiresAt.After(now):
		return bad("expiresAt", "is not in the future")
	case k.ExpiresAt.After(now.Add(century)):
		return bad("expiresAt", "is more than a hundred years away: leave it out for never")
	}
	return nil
}

// each reports whether all items of a list pass and none is there twice.
func each[T comparable](list []T, passes func(T) bool) bool {
	for i, item := range list {
		if !passes(item) || slices.Contains(list[:i], item) {
			return false
		}
	}
	return true
}

// plain reports whether a key's name can be read without doubt. Two names that look alike in a list, or in the log
// of changes, would let one caller act under another's name. So a name must be in its normal form (NFKC), and must
// not contain characters that are invisible, change the writing direction or break the line.
func plain(name string) bool {
	if name == "" || !utf8.ValidString(name) || utf8.RuneCountInString(name) > maxName || norm.NFKC.String(name) != name {
		return false
	}
	if strings.TrimSpace(name) != name || strings.Contains(name, "  ") {
		return false
	}
	for _, r := range name {
		// IsPrint refuses control characters, format characters (zero width, direction), unassigned and private
		// characters, and every space except U+0020.
		if !unicode.IsPrint(r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) ||
			unicode.Is(unicode.Variation_Selector, r) {
			return false
		}
	}
	return true
}

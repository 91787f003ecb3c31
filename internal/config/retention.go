package config

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Ages say how long SQL, and the folder of mail, keep their data; 0 = for ever.
type Ages struct {
	all  time.Duration
	ages map[string]time.Duration // by word, and by TIER.word
}

// The words of TIERQ_SQL_RETENTION. The first three are for jobs, by their outcome, and may follow a tier.
const (
	Results   = "results"
	Dead      = "dead"
	Cancelled = "cancelled"
	Changes   = "changes"
	Mails     = "mails"
)

var (
	outcomeWords = []string{Results, Dead, Cancelled}
	ageWords     = append(slices.Clone(outcomeWords), Changes, Mails)
	tierName     = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,30}$`)
)

// Of returns the age of a word.
func (a Ages) Of(word string) time.Duration {
	if age, ok := a.ages[word]; ok {
		return age
	}
	return a.all
}

// OfTier returns the age of jobs of a tier with the word's outcome.
func (a Ages) OfTier(tier, word string) time.Duration {
	if age, ok := a.ages[tier+"."+word]; ok {
		return age
	}
	return a.Of(word)
}

// Shortest returns the shortest age of any job; 0 = all are kept for ever.
func (a Ages) Shortest() time.Duration {
	shortest := time.Duration(0)
	consider := func(age time.Duration) {
		if age > 0 && (shortest == 0 || age < shortest) {
			shortest = age
		}
	}
	for _, word := range outcomeWords {
		consider(a.Of(word))
		for name, age := range a.ages {
			if strings.HasSuffix(name, "."+word) {
				consider(age)
			}
		}
	}
	return shortest
}

// SQLAges returns the ages of TIERQ_SQL_RETENTION.
func (c Config) SQLAges() Ages {
	a, _ := parseAges(c.SQLRetention) // Load has checked the text
	return a
}

const (
	leastAge = 24 * time.Hour
	mostAge  = 100 * year
	year     = 365 * 24 * time.Hour
)

// parseAges reads "90d,dead=365d,PUBLIC.results=7d,changes=0".
func parseAges(text string) (Ages, []error) {
	a := Ages{ages: map[string]time.Duration{}}
	var problems []error
	for i, part := range strings.Split(text, ",") {
		name, value, named := strings.Cut(strings.TrimSpace(part), "=")
		if !named {
			name, value = "", name
		}
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		age, err := parseAge(value)
		_, twice := a.ages[name]
		switch {
		case err != nil:
			err = fmt.Errorf("%q %w", strings.TrimSpace(part), err)
		case !named && i > 0:
			err = fmt.Errorf("%q: only the first age may have no name; it is for all that have none of their own", value)
		case twice:
			err = fmt.Errorf("%q: %s has an age already", strings.TrimSpace(part), name)
		case named:
			err = nameOfAge(name)
		}
		switch {
		case err != nil:
			problems = append(problems, err)
		case named:
			a.ages[name] = age
		default:
			a.all = age
		}
	}
	if first, _, _ := strings.Cut(text, ","); strings.Contains(first, "=") {
		problems = append(problems, errors.New("must begin with an age without a name, for all that have none of their own: "+
			"write 90d,"+text))
	}
	return a, problems
}

func nameOfAge(name string) error {
	tier, word, tiered := strings.Cut(name, ".")
	switch {
	case !tiered && slices.Contains(ageWords, name):
		return nil
	case tiered && slices.Contains(outcomeWords, word) && tierName.MatchString(tier):
		return nil
	case name == "history" || name == "artifacts":
		return fmt.Errorf("%q cannot have an age: the history and the files of a job are deleted with its outcome", name)
	}
	words := strings.Join(ageWords, ", ")
	return fmt.Errorf("%q is none of %s, nor a tier and one of the first three, like PUBLIC.results", name, words)
}

var ageUnits = map[string]time.Duration{"h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour, "y": year}

// parseAge reads 36h, 90d, 2w, 1y; "0" and "forever" are 0.
func parseAge(text string) (time.Duration, error) {
	if text == "0" || text == "forever" {
		return 0, nil
	}
	var unit time.Duration
	if text != "" {
		unit = ageUnits[text[len(text)-1:]]
	}
	if unit == 0 {
		return 0, errors.New("is not an age: write 36h, 90d, 2w, 1y, or 0 for ever")
	}
	n, err := strconv.ParseInt(text[:len(text)-1], 10, 64)
	if err != nil || n < 0 || strings.HasPrefix(text, "+") {
		return 0, errors.New("is not an age: write 36h, 90d, 2w, 1y, or 0 for ever")
	}
	if n > math.MaxInt64/int64(unit) || time.Duration(n)*unit > mostAge || time.Duration(n)*unit < leastAge {
		return 0, errors.New("must be 24h to 100y, or 0 for ever: an outcome may be written again within a day")
	}
	return time.Duration(n) * unit, nil
}

// checkRetention compares SQL's ages with Redis' retention: as long as Redis answers for a job, or a key stands
// for it, SQL must have its result. An unset TIERQ_SQL_RETENTION is raised to Redis' retention, in whole hours, if
// that is longer.
func (l *loader) checkRetention(c *Config) {
	const name = "TIERQ_SQL_RETENTION"
	if l.bad[name] {
		return
	}
	if l.values[name].text == "" {
		ages, _ := parseAges(c.SQLRetention)
		if longest := max(c.Retention, c.FailedRetention, c.IdempotencyTTL); longest > ages.all {
			c.SQLRetention = fmt.Sprintf("%dh", (longest+time.Hour-1)/time.Hour)
		}
	}
	ages, problems := parseAges(c.SQLRetention)
	for _, err := range problems {
		l.problem(name, err.Error())
	}
	if len(problems) > 0 {
		return
	}
	for _, redis := range []struct {
		setting string
		keeps   time.Duration
		words   []string
	}{
		{"TIERQ_RETENTION", c.Retention, []string{Results, Cancelled}},
		{"TIERQ_FAILED_RETENTION", c.FailedRetention, []string{Dead}},
		{"TIERQ_IDEMPOTENCY_TTL", c.IdempotencyTTL, outcomeWords},
	} {
		if l.bad[redis.setting] {
			continue
		}
		for _, short := range ages.shorter(redis.keeps, redis.words) {
			l.problem(name, fmt.Sprintf("%s are kept for less than %s=%s: Redis would name jobs that SQL does not have any more",
				short, redis.setting, redis.keeps))
		}
	}
}

// shorter returns which of these words, in any tier, have an age below a time.
func (a Ages) shorter(than time.Duration, words []string) (names []string) {
	below := func(age time.Duration) bool { return age > 0 && age < than }
	for _, word := range words {
		if below(a.Of(word)) {
			names = append(names, word)
		}
		for name, age := range a.ages {
			if strings.HasSuffix(name, "."+word) && below(age) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

package httpapi

import (
	"slices"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierq/tierq/internal/job"
)

// keyAsked is the key that a body asks for, with the names of the required fields that were there.
type keyAsked struct {
	job.Key
	seen      []string
	expiresIn time.Duration
}

// The bounds of the values in a body. The room that stores keys decides whether the values make a key.
const (
	maxRate    = 1_000_000
	maxFlight  = 1_000_000_000
	maxNames   = 100
	maxGrace   = 30 * 24 * time.Hour
	dayOfGrace = 24 * time.Hour
	maxExpiry  = 100 * 365 * 24 * time.Hour

	maxKeyLeases = 100_000
)

var keyShape = shape[keyAsked]{members: map[string]member[keyAsked]{
	"name": func(k *keyAsked, v jsontext.Value) error {
		k.seen = append(k.seen, "name")
		if k.Name = text(v); v.Kind() != '"' || k.Name == "" {
			return reason("must be a text that says who uses the key, or for what")
		}
		return nil
	},
	"role": func(k *keyAsked, v jsontext.Value) error {
		k.seen = append(k.seen, "role")
		if k.Role = job.Role(text(v)); !slices.Contains(job.Roles, k.Role) {
			return reason("is none of " + list(job.Roles))
		}
		return nil
	},
	"tiers": func(k *keyAsked, v jsontext.Value) (err error) { k.Tiers, err = namesIn(v, filterTier); return err },
	"types": func(k *keyAsked, v jsontext.Value) (err error) { k.Types, err = namesIn(v, filterType); return err },
	"queues": func(k *keyAsked, v jsontext.Value) (err error) {
		k.Queues, err = namesIn(v, queueBound)
		return err
	},
	"submits": func(k *keyAsked, v jsontext.Value) error {
		if k.Submits = v.Kind() == 't'; !k.Submits && v.Kind() != 'f' {
			return reason("must be true or false")
		}
		return nil
	},
	"leases": func(k *keyAsked, v jsontext.Value) (err error) {
		k.Leases, err = wholeNumber(v, 0, maxKeyLeases)
		return err
	},
	"rate": func(k *keyAsked, v jsontext.Value) (err error) {
		if k.Rate, err = strconv.ParseFloat(string(v), 64); v.Kind() != '0' || err != nil ||
			!(k.Rate >= 0 && k.Rate <= maxRate) {
			return reason("must be a number of requests a second, 0 (unlimited) to " + strconv.Itoa(maxRate))
		}
		return nil
	},
	"burst": func(k *keyAsked, v jsontext.Value) (err error) { k.Burst, err = wholeNumber(v, 0, maxRate); return err },
	"inFlight": func(k *keyAsked, v jsontext.Value) (err error) {
		k.InFlight, err = wholeNumber(v, 0, maxFlight)
		return err
	},
	"expiresAt": func(k *keyAsked, v jsontext.Value) (err error) {
		k.ExpiresAt, err = moment(text(v))
		return err
	},
	"expiresInSeconds": func(k *keyAsked, v jsontext.Value) error {
		n, err := wholeNumber(v, 1, int(maxExpiry/time.Second))
		k.expiresIn = time.Duration(n) * time.Second
		return err
	},
}}

// queueBound reads the name of a queue, or a prefix of names and *.
func queueBound(text string) (string, error) {
	if !job.IsQueueBound(text) {
		return "", reason("has a text that is neither a queue's name nor the beginning of one and *")
	}
	return text, nil
}

// namesIn reads an array of names.
func namesIn[T any](v jsontext.Value, read func(string) (T, error)) ([]T, error) {
	if v.Kind() != '[' {
		return nil, reason("must be an array of names")
	}
	items, err := splitArray(v)
	if err != nil || len(items) > maxNames {
		return nil, reason("has more than " + strconv.Itoa(maxNames) + " names")
	}
	var names []T
	for _, item := range items {
		name, err := read(text(item))
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// keyFor reads the body that asks for a key.
func (a *api) keyFor(body []byte) (job.Key, error) {
	var asked keyAsked
	if body == nil {
		return asked.Key, missing([]string{"name", "role"}, nil)
	}
	if err := keyShape.read(body, &asked); err != nil {
		return asked.Key, err
	}
	if err := missing([]string{"name", "role"}, asked.seen); err != nil {
		return asked.Key, err
	}
	if asked.expiresIn > 0 {
		if !asked.ExpiresAt.IsZero() {
			return asked.Key, invalid("expiresInSeconds", "excludes expiresAt")
		}
		asked.ExpiresAt = a.Clock().Add(asked.expiresIn).UTC().Truncate(time.Millisecond)
	}
	return asked.Key, nil
}

// graceAsked says for how long the old secret stays valid after a rotation.
type graceAsked struct{ grace time.Duration }

var rotateShape = shape[graceAsked]{members: map[string]member[graceAsked]{
	"graceSeconds": func(g *graceAsked, v jsontext.Value) error {
		n, err := wholeNumber(v, 0, int(maxGrace/time.Second))
		g.grace = time.Duration(n) * time.Second
		return err
	},
}}

// keyNamed returns the id of the key that the path names; job.ErrNoKey if the id cannot be a key's.
func (a *api) keyNamed(c *gin.Context) (string, error) {
	if err := noQuery(c); err != nil {
		return "", err
	}
	id := c.Param("id")
	for i := range len(id) {
		if c := id[i]; (c < 'a' || c > 'z') && (c < '2' || c > '7') {
			return "", job.ErrNoKey
		}
	}
	if len(id) != keyIDLength || a.Keys == nil {
		return "", job.ErrNoKey
	}
	return id, nil
}

const keyIDLength = 16

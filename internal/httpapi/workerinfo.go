package httpapi

import (
	"math"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierq/tierq/internal/job"
)

// infoAsked is what a worker says of itself, for operators.
type infoAsked struct {
	job.WorkerInfo
	running int
}

// mostSlots bounds the numbers that a worker says of itself.
const mostSlots = 1_000_000

var infoShape = shape[infoAsked]{members: map[string]member[infoAsked]{
	"host":     func(i *infoAsked, v jsontext.Value) (err error) { i.Host, err = shown(v); return err },
	"version":  func(i *infoAsked, v jsontext.Value) (err error) { i.Version, err = shown(v); return err },
	"language": func(i *infoAsked, v jsontext.Value) (err error) { i.Language, err = shown(v); return err },
	"pid": func(i *infoAsked, v jsontext.Value) (err error) {
		i.PID, err = wholeNumber(v, 0, math.MaxInt32)
		return err
	},
	"slots": func(i *infoAsked, v jsontext.Value) (err error) {
		i.Slots, err = wholeNumber(v, 1, mostSlots)
		return err
	},
	"running": func(i *infoAsked, v jsontext.Value) (err error) {
		i.running, err = wholeNumber(v, 0, mostSlots)
		return err
	},
}}

// shown reads a short text for operators.
func shown(v jsontext.Value) (string, error) {
	s := text(v)
	if s == "" || len(s) > 64 || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "", reason("must be 1 to 64 visible ASCII characters")
	}
	return s, nil
}

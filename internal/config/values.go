package config

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
)

// UnmarshalText reads a list like "api,worker". Its error names an unknown role.
func (r *Roles) UnmarshalText(text []byte) error {
	*r = Roles{}
	for name := range strings.SplitSeq(string(text), ",") {
		switch strings.TrimSpace(name) {
		case "api":
			r.API = true
		case "worker":
			r.Worker = true
		case "recovery":
			r.Recovery = true
		default:
			return fmt.Errorf("%q is no role: use api, worker, recovery, with commas between them", strings.TrimSpace(name))
		}
	}
	return nil
}

// String returns the list in the form that UnmarshalText reads.
func (r Roles) String() string {
	var names []string
	for _, role := range []struct {
		on   bool
		name string
	}{{r.API, "api"}, {r.Worker, "worker"}, {r.Recovery, "recovery"}} {
		if role.on {
			names = append(names, role.name)
		}
	}
	return strings.Join(names, ",")
}

// parsers are the parsers by type. Their errors follow the setting's name and value.
var parsers = map[reflect.Type]env.ParserFunc{
	reflect.TypeFor[bool]():          func(s string) (any, error) { return parseSwitch(s) },
	reflect.TypeFor[int]():           func(s string) (any, error) { n, err := parseWhole(s); return int(n), err },
	reflect.TypeFor[int64]():         func(s string) (any, error) { return parseWhole(s) },
	reflect.TypeFor[time.Duration](): func(s string) (any, error) { return parseDuration(s) },
}

func parseSwitch(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "on", "true":
		return true, nil
	case "off", "false":
		return false, nil
	}
	return false, errors.New("is neither on nor off")
}

func parseWhole(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, errors.New("is not a whole number")
	}
	return n, nil
}

func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, errors.New("is not a duration: write 500ms, 30s, 24h")
	}
	return d, nil
}

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}, {"", 1}}

// parseSize reads 65536, 64KiB, 1MiB. It refuses KB and MB, each of which has two meanings.
func parseSize(s string) (int64, error) {
	for _, u := range sizeUnits {
		digits, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || n > (1<<62)/u.bytes || n < 0 {
			break
		}
		return n * u.bytes, nil
	}
	return 0, errors.New("is not a size: write 65536, 64KiB or 1MiB")
}

// formatSize returns the shortest form that parseSize reads back as n.
func formatSize(n int64) string {
	for _, u := range sizeUnits {
		if n >= u.bytes && n%u.bytes == 0 && u.bytes > 1 {
			return strconv.FormatInt(n/u.bytes, 10) + u.suffix
		}
	}
	return strconv.FormatInt(n, 10)
}

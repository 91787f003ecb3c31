package sandbox

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/alicebob/miniredis/v2"

	"github.com/tierq/tierq/internal/queue"
)

// store is the box's Redis, in memory and reached without a port. Its clock is never advanced: no scenario
// outlasts the TTL of a key.
type store struct{ server *miniredis.Miniredis }

func newStore() store { return store{miniredis.NewMiniRedis()} }

func (s store) close() { s.server.Close() }

const (
	mostEntries = 20
	mostBytes   = 200 // of a value
)

// look reads keys. It leaves out keys that do not exist or have nothing to show.
func (s store) look(keys []string) []State {
	var states []State
	for _, key := range keys {
		state := State{Key: key, Type: s.server.Type(key)}
		switch state.Type {
		case "hash":
			names, _ := s.server.HKeys(key)
			for _, name := range names {
				state.add(name, s.server.HGet(key, name))
			}
		case "zset":
			for _, m := range s.members(key) {
				state.add(m.name, strconv.FormatFloat(m.score, 'f', -1, 64))
			}
		case "list":
			items, _ := s.server.List(key)
			for i, item := range items {
				state.add(strconv.Itoa(i), item)
			}
		case "string":
			value, _ := s.server.Get(key)
			state.add("", value)
		default:
			continue
		}
		states = append(states, state)
	}
	return states
}

func (s *State) add(name, value string) {
	if len(s.Entries) == mostEntries {
		s.More++
		return
	}
	if len(value) > mostBytes {
		value = strings.ToValidUTF8(value[:mostBytes], "") + "..."
	}
	s.Entries = append(s.Entries, Entry{strings.ToValidUTF8(name, "?"), strings.ToValidUTF8(value, "?")})
}

type member struct {
	name  string
	score float64
}

// members returns a sorted set in its order.
func (s store) members(key string) []member {
	set, _ := s.server.SortedSet(key)
	members := make([]member, 0, len(set))
	for name, score := range set {
		members = append(members, member{name, score})
	}
	slices.SortFunc(members, func(a,
		b member) int {
		return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.name, b.name))
	})
	return members
}

// capacity reads the counters.
func (s store) capacity() Capacity {
	key := queue.Key(0, "counters")
	used, _ := strconv.Atoi(s.server.HGet(key, "fresh"))
	waiting, _ := s.server.ZMembers(queue.Key(0, "queue"))
	return Capacity{Used: used, Limit: Limit, Waiting: len(waiting)}
}

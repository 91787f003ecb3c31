package queuetest

import (
	"slices"
	"strconv"
	"strings"
)

// lineKinds are the types of the keys of lines, by the beginning of the key.
func lineKinds() map[string]string {
	kinds := map[string]string{}
	for name, kind := range map[string]string{"jobs:": "zset", "waiting": "zset", "tags:": "hash", "virtual": "hash",
		"keys": "hash", "limits": "hash", "parked": "zset", "spent:": "hash"} {
		kinds[suffix("lines")+name] = kind
	}
	return kinds
}

// KeyOfLines is what the partition has of a key of lines.
type KeyOfLines struct {
	Running int
	Parked  []string // tier:queue of its parked lines
	isThere bool
}

// LineKey returns what the partition has of a key of lines.
func (s Snapshot) LineKey(key string) (k KeyOfLines) {
	for _, item := range s.Keys[suffix("lines")+"keys"].Items {
		if name, text, _ := strings.Cut(item, "="); name == key {
			words := strings.Fields(text)
			k.Running, _ = strconv.Atoi(words[0])
			k.Parked, k.isThere = words[3:], true
		}
	}
	return k
}

// scored returns the members of a sorted set with their scores as texts.
func (s Snapshot) scored(key string) map[string]string {
	all := map[string]string{}
	for _, item := range s.Keys[key].Items {
		at := strings.LastIndex(item, "@")
		all[item[:at]] = item[at+1:]
	}
	return all
}

// lines checks that a line with jobs is either in its queue or among the parked lines of its key, that no other line is
// anywhere, that the numbers of waiting jobs and running attempts are right, and that a key with parked lines says when
// it may run again.
func (a *audit) lines() {
	waiting, parked := a.scored(suffix("lines")+"waiting"), a.scored(suffix("lines")+"parked")
	places := map[string]int{} // name of a line -> in how many places it is
	for set, members := range a.Sets {
		queue, declared := strings.CutPrefix(set, suffix("queues"))
		if set != "queue" && !declared || strings.HasPrefix(set, suffix("lines")) {
			continue
		}
		if set == "queue" {
			queue = "main"
		}
		for member := range members {
			if name, ok := strings.CutPrefix(member, "@"); ok {
				places[name+":"+queue]++
			}
		}
	}
	running := map[string]int{}
	for id, h := range a.Jobs {
		if key := h["line"]; key != "" && a.Columns["leases"][id] != "" {
			running[key]++
		}
	}
	for _, item := range a.Keys[suffix("lines")+"keys"].Items {
		key, _, _ := strings.Cut(item, "=")
		of := a.LineKey(key)
		if of.Running != running[key] {
			a.say("line key %s: %d attempts run, it counts %d", key, running[key], of.Running)
		}
		delete(running, key)
		if _, timed := parked[key]; timed != (len(of.Parked) > 0) {
			a.say("line key %s: its lines %v are parked, it has a time: %v", key, of.Parked, timed)
		}
		delete(parked, key)
		for _, home := range of.Parked {
			tier, queue, _ := strings.Cut(home, ":")
			places[tier+":"+key+":"+queue]++
		}
	}
	for key, n := range running {
		a.say("line key %s: %d attempts run, and it is not there", key, n)
	}
	for key := range parked {
		a.say("line key %s has a time to run again and no parked lines", key)
	}
	for set, members := range a.Sets {
		if name, ok := strings.CutPrefix(set, suffix("lines")+"jobs:"); ok && len(members) > 0 {
			if places[name] != 1 || waiting[name] != strconv.Itoa(len(members)) {
				a.say("line %s of %d jobs is in %d places, counted %s", name, len(members), places[name], waiting[name])
			}
			delete(places, name)
			delete(waiting, name)
		}
	}
	for name, n := range places {
		a.say("line %s is in %d places and has no jobs", name, n)
	}
	for name := range waiting {
		a.say("line %s is counted and has no jobs", name)
	}
	slices.Sort(a.wrong)
}

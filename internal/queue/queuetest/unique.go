package queuetest

import (
	"regexp"
	"slices"
	"strings"

	"github.com/tierq/tierq/internal/job"
)

// HeldFrom is what the score of a HELD job in scheduled has above the time from which it may run.
const HeldFrom = 4_000_000_000_000_001

// classOption is an option of a class: a unique key, a line, the time by which the job must be claimed, or its
// callback; charge is what a lease has of the line.
var classOption = regexp.MustCompile(` (uniq|line|exp|callback|charge)=(\S+)`)

// withoutOptions cuts the options out of a class, or out of a text that begins with one, and keeps them as fields.
func (f fields) withoutOptions(text string) string {
	for _, m := range classOption.FindAllStringSubmatch(text, -1) {
		f[strings.Replace(m[1], "exp", "expires", 1)] = m[2]
	}
	return classOption.ReplaceAllString(text, "")
}

// UniqueOf returns what a unique key has: its holder's id and generation, and the ids of the jobs behind it.
func (s Snapshot) UniqueOf(hash string) (holder, generation string, held []string) {
	words := strings.Fields(strings.Join(s.Keys[suffix("unique")+hash].Items, ""))
	if len(words) < 2 {
		return "", "", nil
	}
	return words[0], words[1], words[2:]
}

// unique checks that each living job with a unique key has its key, or another living job has it: the holder of a key
// lives and carries it, a HELD job is behind the holder of its key, and no other job is.
func (a *audit) unique() {
	for key, v := range a.Keys {
		hash, ok := strings.CutPrefix(key, suffix("unique"))
		if !ok {
			continue
		}
		holder, generation, held := a.UniqueOf(hash)
		h := a.Jobs[holder]
		if v.TTL >= 0 {
			if len(held) > 0 {
				a.say("unique %s: for seconds, and has jobs that are HELD: %v", hash, held)
			}
			continue
		}
		of, _, _ := strings.Cut(h["uniq"], ".")
		if of != hash || h["generation"] != generation || a.State(job.ID(holder)).Ended() ||
			a.State(job.ID(holder)) == job.Held {
			a.say("unique %s: %q does not carry it as a living job: %v", hash, v.Items, h)
		}
		for _, id := range held {
			of, _, _ := strings.Cut(a.Jobs[id]["uniq"], ".")
			if of != hash || a.State(job.ID(id)).Ended() || id == holder {
				a.say("unique %s: %s is behind the holder: %v", hash, id, a.Jobs[id])
			}
		}
	}
	for id, h := range a.Jobs {
		hash, while, _ := strings.Cut(h["uniq"], ".")
		state := a.State(job.ID(id))
		if hash == "" || state.Ended() || strings.HasPrefix(while, "s") {
			continue
		}
		holder, _, behind := a.UniqueOf(hash)
		isTimed := a.Keys[suffix("unique")+hash].TTL >= 0 && holder != ""
		switch places := strings.Count(strings.Join(append(behind, holder), " "), id); {
		case state != job.Held && (isTimed || while == "w" && state == job.Processing):
			if places > 0 && holder != id {
				a.say("%s: %s, and behind the holder of a key that it has left", id, state)
			}
		case places != 1 || state == job.Held && !slices.Contains(behind, id):
			a.say("%s: %s, its unique key %s is %s's, and behind it are %v", id, state, hash, holder, behind)
		}
	}
}

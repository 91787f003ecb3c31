package embedded

import (
	"fmt"
	"time"
)

// entry is a key with its value. Until is when it expires, in ms since 1970; 0 = never.
type entry struct {
	Key    string
	Kind   string // string, list, hash, set or zset
	Until  int64
	Texts  []string  // the value; of a hash names and values in turn; of a set or a sorted set its members
	Scores []float64 // of the members of a sorted set
}

// read returns a key with its value. at is the time to which the server's clock was advanced.
func (r *Redis) read(key string, at time.Time) (e entry, err error) {
	e = entry{Key: key, Kind: r.server.Type(key)}
	if left := r.server.TTL(key); left > 0 {
		e.Until = at.Add(left).UnixMilli()
	}
	switch e.Kind {
	case "string":
		var text string
		text, err = r.server.Get(key)
		e.Texts = []string{text}
	case "list":
		e.Texts, err = r.server.List(key)
	case "hash":
		var names []string
		names, err = r.server.HKeys(key)
		for _, name := range names {
			e.Texts = append(e.Texts, name, r.server.HGet(key, name))
		}
	case "set":
		e.Texts, err = r.server.SMembers(key)
	case "zset":
		var scores map[string]float64
		scores, err = r.server.SortedSet(key)
		for member, score := range scores {
			e.Texts, e.Scores = append(e.Texts, member), append(e.Scores, score)
		}
	default:
		err = fmt.Errorf("it is a %q", e.Kind)
	}
	if err != nil {
		return e, fmt.Errorf("read the key %s: %w", key, err)
	}
	return e, nil
}

// write gives the server a key, unless it has expired at a time.
func (r *Redis) write(e *entry, at time.Time) (err error) {
	left := time.UnixMilli(e.Until).Sub(at)
	if e.Until > 0 && left <= 0 {
		return nil
	}
	switch {
	case e.Kind == "string" && len(e.Texts) == 1:
		err = r.server.Set(e.Key, e.Texts[0])
	case e.Kind == "list":
		_, err = r.server.Push(e.Key, e.Texts...)
	case e.Kind == "hash" && len(e.Texts)%2 == 0:
		r.server.HSet(e.Key, e.Texts...)
	case e.Kind == "set":
		_, err = r.server.SetAdd(e.Key, e.Texts...)
	case e.Kind == "zset" && len(e.Scores) == len(e.Texts):
		for i, member := range e.Texts {
			if _, err = r.server.ZAdd(e.Key, e.Scores[i], member); err != nil {
				break
			}
		}
	default:
		err = fmt.Errorf("it is a %q of %d texts", e.Kind, len(e.Texts))
	}
	if err != nil {
		return fmt.Errorf("write the key %s: %w", e.Key, err)
	}
	if e.Until > 0 {
		r.server.SetTTL(e.Key, left)
	}
	return nil
}

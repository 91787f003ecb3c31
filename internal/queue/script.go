package queue

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/lua"
)

// script is one Lua file. Its header says which keys and arguments a call passes and in which order; a test
// compares the header with the body.
type script struct {
	name   string
	header lua.Header
	redis  *redis.Script
}

// scripts has all scripts by name.
var scripts = func() map[string]*script {
	all := map[string]*script{}
	for _, name := range lua.Names {
		header, wrong := lua.ReadHeader(name, lua.Source(name))
		if len(wrong) > 0 {
			panic("queue: the header of " + name + ": " + wrong[0])
		}
		all[name] = &script{name: name, header: header, redis: redis.NewScript(lua.Script(name))}
	}
	return all
}()

// bound is a script with its keys for every partition. Each call names at least two keys, of which one ("job", a
// prefix) never exists in Redis. A server of a cluster therefore executes no script while the slot moves to
// another server (it answers TRYAGAIN): half of the keys that the script reads could be on the other server.
type bound struct {
	*script
	keys [][]string
}

// bind finds a script by its name. special maps names in the script's KEYS to suffixes other than the usual ones.
func (q *Queue) bind(name string, special map[string]string) bound {
	b := bound{script: scripts[name], keys: make([][]string, q.opts.Partitions)}
	all := maps.Clone(q.channels)
	maps.Copy(all, special)
	for p := range b.keys {
		b.keys[p] = keysFor(b.header.Keys, p, all)
		if len(b.keys[p]) == 1 {
			b.keys[p] = append(b.keys[p], Key(p, "job"))
		}
	}
	return b
}

// with returns the script with another suffix for one of its keys, for one partition.
func (b bound) with(partition int, name, suffix string) bound {
	if partition < 0 || partition >= len(b.keys) {
		return b // call refuses it
	}
	all := make([][]string, len(b.keys))
	all[partition] = slices.Clone(b.keys[partition])
	all[partition][slices.Index(b.header.Keys, name)] = prefix(partition) + suffix
	return bound{b.script, all}
}

// call runs a script once, with EVALSHA, or with EVAL if the server does not have the script yet. It reports each
// call to Options.Observe. The error is job.ErrUnavailable or job.ErrAmbiguous if Redis is the cause; see
// classify.
func (q *Queue) call(ctx context.Context, c redis.Scripter, b bound, partition int, args []any) (any, error) {
	if partition < 0 || partition >= len(b.keys) {
		return nil, fmt.Errorf("%s: no partition %d", b.name, partition)
	}
	if !b.header.Fits(len(args)) {
		return nil, fmt.Errorf("%s: %d arguments, which its header does not have", b.name, len(args))
	}
	began := time.Now()
	reply, err := b.redis.Run(ctx, c, b.keys[partition], args...).Result()
	if err != nil {
		err = classify(b.name, err)
	}
	q.opts.Observe(b.name, partition, time.Since(began), err)
	return reply, err
}

// words runs a script that returns one word per entry.
func (q *Queue) words(ctx context.Context, c redis.Scripter, b bound, partition, entries int, args []any) ([]job.Word,
	error) {
	texts, err := q.texts(ctx, c, b, partition, args)
	if err != nil {
		return nil, err
	}
	if len(texts) != entries {
		return nil, fmt.Errorf("%s: %d words for %d entries", b.name, len(texts), entries)
	}
	words := make([]job.Word, len(texts))
	for i, text := range texts {
		if words[i], err = b.word(text); err != nil {
			return nil, err
		}
	}
	return words, nil
}

// texts runs a script that returns a flat list of texts.
func (q *Queue) texts(ctx context.Context, c redis.Scripter, b bound, partition int, args []any) ([]string, error) {
	reply, err := q.call(ctx, c, b, partition, args)
	if err != nil {
		return nil, err
	}
	list, ok := reply.([]any)
	if !ok {
		return nil, fmt.Errorf("%s: reply is a %T, not a list", b.name, reply)
	}
	texts := make([]string, len(list))
	for i, item := range list {
		if texts[i], ok = item.(string); !ok {
			return nil, fmt.Errorf("%s: reply %d is a %T, not a text", b.name, i, item)
		}
	}
	return texts, nil
}

// word converts a script's text to a word. An unknown text is an error.
func (s *script) word(text string) (job.Word, error) {
	switch w := job.Word(text); w {
	case job.OK, job.Full, job.Quota, job.Late, job.Lost, job.Duplicate, job.Replay, job.Mismatch, job.Busy, job.Empty,
		job.IsHeld, job.IsUnique, job.IsTaken, job.Replaced, job.Cancel, job.Discarded, job.WasCancelled,
		job.WasExpired, job.Ended, job.Suspect, job.Quarantined, job.Repaired, job.Reported:
		return w, nil
	}
	return "", fmt.Errorf("%s: unknown word %q", s.name, text)
}

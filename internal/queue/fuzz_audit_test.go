package queue

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/fuzz"
	"github.com/tierq/tierq/internal/job"
)

// The replies of the audit's scripts are read completely or are an error. Each finding has a known word and a
// kind, and lost data is never reported as repaired.
func FuzzAudited(f *testing.F) {
	q := &Queue{audit: bound{script: &script{name: "audit"}}, recount: bound{script: &script{name: "recount"}}}
	fuzz.Text(f, func(t *testing.T, text string) {
		texts := strings.Split(text, "\x1f")
		batch := make([]job.Suspected, len(texts))
		for i := range batch {
			batch[i].ID = job.ID("job " + strconv.Itoa(i))
		}
		found, err := q.readAudited(2, batch, texts)
		at, kinds := map[job.ID]string{}, 0
		for i, answer := range texts {
			at[batch[i].ID] = answer
			kinds += max(len(strings.Fields(answer))-1, 0)
		}
		if err == nil && len(found) > kinds {
			t.Errorf("%d findings of %d kinds: %+v", len(found), kinds, found)
		}
		for _, one := range found {
			answer := at[one.ID]
			word, rest, _ := strings.Cut(answer, " ")
			if one.Kind == payloadLost {
				word = string(job.Reported)
			}
			if one.Partition != 2 || one.Kind == "" || !strings.Contains(rest, one.Kind) || string(one.Result) != word {
				t.Errorf("%q was read as %+v", answer, one)
			}
		}
		if _, err := q.readAudited(2, batch[1:], texts); err == nil {
			t.Error("an answer too many was taken")
		}
		counted, err := q.readRecounted(1, texts)
		if err == nil && len(counted) != len(texts) || err != nil && counted != nil {
			t.Errorf("%d of %d, %v", len(counted), len(texts), err)
		}
		for i, one := range counted {
			if again := strings.TrimRight(string(one.Result)+" "+one.Kind+" "+one.Detail, " "); one.Partition != 1 ||
				again != strings.TrimRight(texts[i], " ") {
				t.Errorf("%q was read as %+v", texts[i], one)
			}
		}
	}, "OK", "REPAIRED queue beats", "REPAIRED payload_lost\x1fOK", "QUARANTINED fields", "REPORTED unknown_key",
		"SUSPECT", "REPAIRED counter fresh 3 2", "ok",
		"REPAIRED  ", "OK\x1f\x1fOK", "", " queue")
}

// A cursor of the walk is read as a valid step or is job.ErrBadCursor. A step that is written as a cursor is read
// back as the same step.
func FuzzReadStep(f *testing.F) {
	f.Attr("proves", "A60")
	q := &Queue{shared: &shared{opts: Options{Partitions: 4}}}
	fuzz.Text(f, func(t *testing.T, at string) {
		from, err := q.readStep(at)
		if err != nil {
			if !errors.Is(err, job.ErrBadCursor) {
				t.Error(err)
			}
			return
		}
		if strings.HasSuffix(from.address, " ") { // no server's address ends in a space
			return
		}
		written := setCursor(from.set, from.partition, from.cursor, from.queue)
		if from.keys {
			written = keysCursor(from.cursor, from.address)
		}
		if from.set < 0 || from.set >= len(walked) || from.partition < 0 || from.partition >= 4 ||
			from.keys && from.set+from.partition != 0 {
			t.Errorf("read as %+v", from)
		}
		if again, err := q.readStep(written); err != nil || again != from {
			t.Errorf("read as %+v, which is written %q and read as %+v, %v", from, written, again, err)
		}
	}, "", "keys 0", "keys 17 127.0.0.1:6379", "keys x", "keys 18446744073709551615 a", "set 0 0 0", "set 5 3 99",
		"set 6 0 0", "set 0 4 0", "set -1 0 0", "set 0 0",
		"set 0 0 0 0", "set 0 0 18446744073709551616", "set", "keys ")
}

// Counters are added up as they are stored: a text that is no number counts as 0, and an unknown field changes no
// other count.
func FuzzCounts(f *testing.F) {
	fuzz.Text(f, func(t *testing.T, text string) {
		field, value, _ := strings.Cut(text, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		var b StatsBucket
		b.add(map[string]string{field: value})
		if len(b.Counts) != 1 || err == nil && b.Counts[field] != n ||
			errors.Is(err, strconv.ErrSyntax) && b.Counts[field] != 0 {
			t.Errorf("counted %v", b.Counts)
		}
		b.add(map[string]string{field: "1"})
		if err == nil && b.Counts[field] != n+1 {
			t.Errorf("and one more: %v", b.Counts)
		}
		l := Levels{Tiers: map[job.Tier]TierLevel{}}
		l.add(field, 3)
		sum := l.Fresh + l.Delayed + l.Outbox + l.OutboxBytes + l.Acknowledged
		for _, one := range l.Tiers {
			sum += one.Ready + one.Fresh + one.Scheduled + one.Delayed + one.Running
		}
		tier, what, of := strings.Cut(field, ":")
		level, there := l.Tiers[job.Tier(tier)]
		switch {
		case sum != 0 && sum != 3 || len(l.Tiers) > 1 || there != of || !of && level != (TierLevel{}):
			t.Errorf("%q counts as %+v", field, l)
		case of && (sum == 3) != (what == "ready" || what == "fresh" || what == "scheduled" || what == "delayed" ||
			what == "running"):
			t.Errorf("%q counts as %+v", field, l)
		}
	}, "fresh=3", "PAID:ready=1", "PAID:fresh=-1", "X:Y:running=2", ":scheduled=1", "outbox_bytes=9223372036854775807",
		"acknowledged=1e3", "delayed=", "=", "PAID:delayed=0x1",
		"submitted=9223372036854775808", "fresh")
}

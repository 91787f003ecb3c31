package job

import (
	"errors"
	"fmt"
	"testing"
)

func TestParseID(t *testing.T) {
	const id = "019de340-01fe-7a58-be69-567cd7d6b7d4"
	for text, want := range map[string]ID{
		id:                                      id,
		"019DE340-01FE-7A58-BE69-567CD7D6B7D4":  id,
		"":                                      "",
		id[:35]:                                 "",
		id + "0":                                "",
		"019de34001fe7a58be69567cd7d6b7d40000":  "",
		"019de340-01fe-7a58-be69-567cd7d6b7dg":  "",
		"019de340-01fe-7a58-be69-567cd7d6b7\n4": "",
		"{19de340-01fe-7a58-be69-567cd7d6b7d4":  "",
	} {
		got, err := ParseID(text)
		if got != want || (err == nil) != (want != "") || err != nil && !errors.Is(err, ErrBadID) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	if got := ID(id).Partition(); got != 0xd4 {
		t.Errorf("partition %d", got)
	}
	if got := ID("nothing").Partition(); got != -1 {
		t.Errorf("partition of no id: %d", got)
	}
}

func TestBatches(t *testing.T) {
	id := func(partition int) ID { return ID(fmt.Sprintf("019de340-01fe-7a58-be69-567cd7d6b7%02x", partition)) }
	var ids []ID
	for i := range 250 {
		ids = append(ids, id(i%2))
	}
	self := func(i *ID) ID { return *i }
	var sizes []string
	for p, batch := range Batches(ids, self, func(*ID) int { return 1 }) {
		for _, i := range batch {
			if i.Partition() != p {
				t.Fatalf("%s in a batch of partition %d", i, p)
			}
		}
		sizes = append(sizes, fmt.Sprint(p, ":", len(batch)))
	}
	if got := fmt.Sprint(sizes); got != "[0:100 0:25 1:100 1:25]" {
		t.Errorf("batches %s", got)
	}
	sizes = nil
	for p, batch := range Batches(ids[:8:8], self, func(*ID) int { return MaxBatchBytes/2 + 1 }) {
		sizes = append(sizes, fmt.Sprint(p, ":", len(batch)))
		if len(sizes) == 3 {
			break
		}
	}
	if got := fmt.Sprint(sizes); got != "[0:1 0:1 0:1]" {
		t.Errorf("large ones: %s", got)
	}
}

func TestStatus(t *testing.T) {
	for s, ended := range map[Status]bool{Scheduled: false, Pending: false, Processing: false, Completed: true,
		Failed: true, Cancelled: true, NeedDiscard: true} {
		if s.Ended() != ended {
			t.Errorf("%s ended: %v", s, s.Ended())
		}
	}
	if NeedDiscard.Shown() != Failed || Pending.Shown() != Pending {
		t.Error("NEED_DISCARD is shown as FAILED, and nothing else is renamed")
	}
	if Crashed.Cause() != HeartbeatStopped || Stuck.Cause() != MaxTimeExceeded {
		t.Error("the watches' causes")
	}
}

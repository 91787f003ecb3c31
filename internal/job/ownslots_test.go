package job

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func TestOwnSlots(t *testing.T) {
	for _, c := range []struct {
		own   [4]int // of priorities 1, 2, 2 and 3
		slots int
		want  string
	}{
		{[4]int{}, 4, "[]"}, {[4]int{2, 0, 0, 1}, 4, "[{1 2} {3 1}]"}, {[4]int{1, 1, 1, 0}, 4, "[{1 1} {2 2}]"},
		{[4]int{3, 1, 0, 1}, 4, "[{1 3} {2 1}]"}, {[4]int{9, 1, 1, 1}, 4, "[{1 4}]"}, {[4]int{1, 1, 1, 1}, 0, "[]"},
	} {
		plans := make([]Plan, 4)
		for i, priority := range []int{1, 2, 2, 3} {
			plans[i] = Plan{Priority: priority, OwnSlots: c.own[i]}
		}
		if got := fmt.Sprint(OwnSlots(plans, c.slots)); got != c.want {
			t.Errorf("%v of %d slots: %s, want %s", c.own, c.slots, got, c.want)
		}
	}
}

// The slots that RoomFor finds are the free ones, all of them, and a priority can always use its own free ones.
func TestRoomFor(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		slots, running := rapid.IntRange(1, 20).Draw(r, "slots"), map[int]int{}
		plans := make([]Plan, 3)
		for i := range plans {
			plans[i] = Plan{Priority: i + 1, OwnSlots: rapid.IntRange(0, 8).Draw(r, "own")}
		}
		own := OwnSlots(plans, slots)
		free := slots
		for free > 0 && rapid.Bool().Draw(r, "another") {
			room := RoomFor(own, free, running)
			priority := rapid.IntRange(1, 3).Draw(r, "priority")
			if room.Take(priority) {
				running[priority]++
				free--
			}
		}
		room := RoomFor(own, free, running)
		sum := room.Common
		for _, o := range room.Own {
			sum += o.Slots
		}
		if sum != free {
			r.Fatalf("%+v of %d free slots; own %v, running %v", room, free, own, running)
		}
		for i, o := range own {
			if want := max(0, o.Slots-running[o.Priority]); room.Own[i].Slots != want {
				r.Fatalf("%+v; own %v, running %v", room, own, running)
			}
		}
	})
}

package job

// OwnRoom has the slots that only jobs of one priority may use: of the tier of that priority, or of all its tiers.
type OwnRoom struct{ Priority, Slots int }

// OwnSlots returns the own slots that plans give to priorities in a process with so many slots, best first. If they
// give more than there are, the worst priorities get less. It returns nil if no plan has any.
func OwnSlots(plans []Plan, slots int) []OwnRoom {
	var own []OwnRoom
	wanted := map[int]int{}
	for _, p := range plans {
		wanted[p.Priority] += p.OwnSlots
	}
	left := max(slots, 0)
	for _, p := range plans { // by priority
		n := min(wanted[p.Priority], left)
		delete(wanted, p.Priority)
		if n > 0 {
			own = append(own, OwnRoom{p.Priority, n})
			left -= n
		}
	}
	return own
}

// ClaimRoom says for how many jobs slots are free: Own of one priority each, Common of any priority beyond that.
type ClaimRoom struct {
	Own    []OwnRoom
	Common int
}

// RoomFor returns what a process has room for that has so many free slots, and runs so many jobs of each priority.
//
// With own slots o, and r running jobs of a priority, max(0, o-r) of its own slots are free. What runs beyond own slots
// uses common ones.
func RoomFor(own []OwnRoom, free int, running map[int]int) ClaimRoom {
	room := ClaimRoom{Common: free}
	for _, o := range own {
		n := max(0, o.Slots-running[o.Priority])
		room.Own = append(room.Own, OwnRoom{o.Priority, n})
		room.Common -= n
	}
	room.Common = max(room.Common, 0)
	return room
}

// Take takes a slot for a job of a priority, and says whether one was free.
func (r *ClaimRoom) Take(priority int) bool {
	for i := range r.Own {
		if o := &r.Own[i]; o.Priority == priority && o.Slots > 0 {
			o.Slots--
			return true
		}
	}
	r.Common--
	return r.Common >= 0
}

package sim

import (
	"context"
	"slices"
	"strings"

	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
)

// S34: a place is reserved, or refused, as the limits say, and counts in them until restore turns it into its job or it
// is given back. A job that Redis has has no place, and at the end only jobs that never came have one.

// place is a place that the answers so far demand.
type place struct {
	id        job.ID
	tier      job.Tier
	owner     string
	countsAs  string // f, d or l, as in lua/places.lua
	size      int
	partition int
}

// reserve handles a call for places: "id place_class bytes" each.
func (s *shadow) reserve(partition int, argv, texts []string) {
	forced, refused := argv[2] == "1", false
	var kept []*place
	for i := 4; i+2 < len(argv); i += 3 {
		id, text := job.ID(argv[i]), texts[(i-4)/3]
		kind := strings.Fields(argv[i+1]) // counts_as tier queue owner generation limit quota queue_limit
		p := &place{
			id: id, tier: job.Tier(kind[1]), owner: strings.TrimPrefix(kind[3], "-"), countsAs: kind[0],
			size: int(number(argv[i+2])), partition: partition,
		}
		quota, status := strings.TrimPrefix(kind[6], "-"), job.Pending
		if p.countsAs == "d" {
			status = job.Scheduled
		}
		k := s.jobs[id]
		want := "OK"
		switch {
		case refused:
			want = "EMPTY"
		case text == "LATE" && !forced: // Redis has lost its data, or the call was long under way
			want, refused = "LATE", true
		case s.places[id] != nil, k != nil && !k.forgotten && k.generation >= int(number(kind[4])):
			want = "DUPLICATE"
		case !forced && p.owner != "" && quota != "" && s.living(partition, p.owner) >= int(number(quota)):
			want, refused = "QUOTA", true
		default:
			if limit := s.full(partition, planOf(kind[1]), status); limit != "" && !forced {
				want, refused = "FULL "+limit, true
			}
		}
		if text != want && !(k != nil && k.forgotten) {
			s.wrong("S34", "a place for %s: %q, not %q", id, text, want)
		}
		if text == "OK" {
			s.places[id] = p
			kept = append(kept, p)
		}
	}
	if refused { // all or none
		for _, p := range kept {
			delete(s.places, p.id)
		}
	}
}

// unreserve handles places that were looked up or given back: "id is_needed seen" each.
func (s *shadow) unreserve(argv, texts []string) {
	for i := 0; i+2 < len(argv); i += 3 {
		id := job.ID(argv[i])
		p, k := s.places[id], s.jobs[id]
		if texts[i/3] != "OK" || p == nil {
			continue
		}
		there := k != nil && !k.forgotten
		if there || argv[i+1] == "0" {
			delete(s.places, id)
		}
		kept, _ := s.w.store.do("HEXISTS", queue.Key(p.partition, "reserved"), string(id))
		if is := kept == int64(1); is != (s.places[id] != nil) {
			s.wrong("S34", "the place of %s, which is needed: %s, Redis has the job: %v; kept: %v", id, argv[i+1], there, kept)
		}
	}
}

// onlyUnborn is rule S34 at the end.
func (w *World) onlyUnborn() {
	for id := range w.shadow.places {
		if w.shadow.of(id) != nil {
			w.fail("S34", "%s has been in Redis, and has a place", id)
		}
	}
}

// placeTable is the jobs that need places, in SQL.
type placeTable struct{ p *process }

func (t placeTable) NeededPlaces(ctx context.Context, places []job.Reserved) error {
	needed, err := ask(ctx, t.p, "sql needed places", string(places[0].ID), func(d *database) (needed []bool, _ error) {
		for _, p := range places {
			_, waits := d.jobOf(p.ID)
			r := d.rows[p.ID]
			needed = append(needed, waits != nil && waits.Status == job.Waiting || r != nil && !d.over(r))
		}
		return needed, nil
	})
	for i := range needed {
		places[i].Needed = needed[i]
	}
	return err
}

func (t placeTable) Places(ctx context.Context, _ string, _ int) (places []job.Reservation, next string, err error) {
	places, err = ask(ctx, t.p, "sql places", "", func(d *database) (places []job.Reservation, _ error) {
		for _, f := range d.flows {
			for i := range f.Jobs {
				if f.Jobs[i].Status == job.Waiting {
					places = append(places, placeIn(&f.Jobs[i]))
				}
			}
		}
		slices.SortFunc(places, func(a, b job.Reservation) int { return strings.Compare(string(a.ID), string(b.ID)) })
		return places, nil
	})
	return places, "", err
}

// placeIn returns the place of a job of a flow.
func placeIn(j *job.FlowJob) job.Reservation {
	return job.Reservation{
		ID: j.ID, Tier: j.Tier, Owner: j.Owner, Generation: max(j.Generation, 1), Options: j.Options, Bytes: len(j.Payload),
		Waits: len(j.After) > 0 || j.Delay > 0,
	}
}

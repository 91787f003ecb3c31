package ledger

import (
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// jobsFor puts pending jobs from 1 on into Redis and failed jobs from 101 on into SQL.
func jobsFor(inRedis, inSQL int) (map[job.ID]job.Job, map[job.ID]job.DeadLetter) {
	redis, sql := map[job.ID]job.Job{}, map[job.ID]job.DeadLetter{}
	for n := range inRedis {
		redis[testID(n+1)] = is(testID(n+1), job.Pending, 1)
	}
	for n := range inSQL {
		sql[testID(n+101)] = job.DeadLetter{Job: is(testID(n+101), job.Failed, 1)}
	}
	return redis, sql
}

func TestList_TheLivingThenTheArchived(t *testing.T) {
	for _, tc := range []struct {
		name           string
		inRedis, inSQL int
		filter         job.Filter
		limit          int
		pages          []int
		calls          string // to SQL
	}{
		{"nothing", 0, 0, job.Filter{}, 10, []int{0}, "list"},
		{"both on one page", 3, 4, job.Filter{}, 10, []int{7}, "list"},
		{"page by page", 5, 5, job.Filter{}, 2, []int{2, 2, 2, 2, 2}, "list list list"},
		{"the living fill a page", 4, 1, job.Filter{}, 4, []int{4, 1}, "list"},
		{"only the archived", 0, 3, job.Filter{}, 2, []int{2, 1}, "list list"},
		{"a status that SQL never has", 3, 4, job.Filter{Status: job.Pending}, 2, []int{2, 1}, ""},
		{"a status that both may have", 3, 4, job.Filter{Status: job.Failed}, 3, []int{3, 1}, "list list"},
		{"nobody's tier", 3, 4, job.Filter{Tier: "X"}, 3, []int{0}, "list"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l, _, s := given(jobsFor(tc.inRedis, tc.inSQL))
			var sizes []int
			var ids []job.ID
			cursor := ""
			for {
				items, next, err := l.List(t.Context(), tc.filter, cursor, tc.limit)
				if err != nil {
					t.Fatal(err)
				}
				sizes = append(sizes, len(items))
				for _, j := range items {
					ids = append(ids, j.ID)
				}
				if cursor = next; cursor == "" {
					break
				}
			}
			if !slices.Equal(sizes, tc.pages) || strings.Join(s.calls, " ") != tc.calls {
				t.Errorf("pages of %v, SQL was asked to %v; want %v, %s", sizes, s.calls, tc.pages, tc.calls)
			}
			if !slices.IsSorted(ids) || len(slices.Compact(ids)) != len(ids) {
				t.Errorf("order %v", ids)
			}
		})
	}
}

func TestList_Outages(t *testing.T) {
	redis, sql := jobsFor(3, 3)
	l, r, s := given(redis, sql)
	s.down = job.ErrUnavailable
	items, next, err := l.List(t.Context(), job.Filter{}, "", 10)
	if len(items) != 3 || next == "" || err != nil {
		t.Errorf("%d items, next %q, %v", len(items), next, err)
	}
	if _, _, err := l.List(t.Context(), job.Filter{}, next, 10); !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("the archived: %v", err)
	}
	if _, _, err := l.List(t.Context(), job.Filter{Tier: job.Public}, "", 10); !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("an empty list is not what SQL being down means: %v", err)
	}
	s.down, r.down = nil, job.ErrAmbiguous
	if _, _, err := l.List(t.Context(), job.Filter{}, "", 10); !errors.Is(err, job.ErrAmbiguous) {
		t.Errorf("the living: %v", err)
	}
	if items, _, err := l.List(t.Context(), job.Filter{}, next, 10); len(items) != 3 || err != nil {
		t.Errorf("the archived need no Redis: %d, %v", len(items), err)
	}
}

func TestList_StrictCursor(t *testing.T) {
	t.Attr("proves", "A21")
	l, r, s := given(jobsFor(5, 5))
	b64 := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	good := b64("1l:2")
	for _, cursor := range []string{
		"x", "2", good + "=", good[:len(good)-1], good + "\n", "\n" + good, " " + good, good + good, strings.ToUpper(good),
		b64("1l:"), b64("2l:2"), b64("1x:2"),
		b64("1l"), b64("1l:99"), b64("1l:x"), b64("1a:x"), b64("1a:99"), b64("1l:" + strings.Repeat("1", 600)), "\x00", "%00",
		"MWw6Mh",
	} {
		if items, _, err := l.List(t.Context(), job.Filter{}, cursor, 2); !errors.Is(err, job.ErrBadCursor) || items != nil {
			t.Errorf("%q: %v, %v", cursor, items, err)
		}
	}
	r.calls, s.calls = nil, nil
	if items, _, err := l.List(t.Context(), job.Filter{}, good, 2); err != nil || len(items) != 2 ||
		items[0].ID != testID(3) {
		t.Errorf("%v, %v", items, err)
	}
}

func TestDead_PassesThrough(t *testing.T) {
	t.Attr("proves", "S0-P2")
	l, _, _ := given(nil, dead(5))
	letters, _, err := l.Dead(t.Context(), job.Filter{}, "", 3)
	if len(letters) != 3 || err != nil {
		t.Errorf("%d, %v", len(letters), err)
	}
	if letters, total, err := l.DeadPage(t.Context(), job.Filter{}, 0, 2); len(letters) != 2 || total != 5 || err != nil {
		t.Errorf("%d of %d, %v", len(letters), total, err)
	}
	nobodys := "k234567k234567ab"
	if letters, total, err := l.DeadPage(t.Context(), job.Filter{Owner: &nobodys}, 0, 2); len(letters) != 0 ||
		total != 0 || err != nil {
		t.Errorf("of somebody else: %d of %d, %v", len(letters), total, err)
	}
	n := 0
	if err := l.EachDead(t.Context(), job.Filter{Tier: job.Public},
		func(job.DeadLetter) error { n++; return nil }); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

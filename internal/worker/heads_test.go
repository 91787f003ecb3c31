package worker

import "testing"

func TestHeadsBest(t *testing.T) {
	cases := []struct {
		name      string
		heads     heads
		partition int
		bound     float64
		ok        bool
	}{
		{"one, unknown", heads{unknown}, 0, none, true},
		{"one, known", heads{7}, 0, none, true},
		{"one, empty", heads{none}, 0, none, false},
		{"up to the second best", heads{9, 3, 5}, 1, 5, true},
		{"the second best may come first", heads{4, 3}, 1, 4, true},
		{"equal heads: either, with its equals", heads{3, 3}, 0, 3, true},
		{"an unknown one is looked at first", heads{3, unknown, none}, 1, 3, true},
		{"two unknown: the first look takes nothing", heads{unknown, unknown}, 0, unknown, true},
		{"only one is not empty", heads{none, none, 8}, 2, none, true},
		{"all empty", heads{none, none}, 0, none, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			partition, bound, ok := c.heads.best()
			if ok != c.ok || ok && (partition != c.partition || bound != c.bound) {
				t.Errorf("best = %d, %v, %v, want %d, %v, %v", partition, bound, ok, c.partition, c.bound, c.ok)
			}
		})
	}
}

func TestHeadsForgetOnlyTheEmpty(t *testing.T) {
	h := heads{none, 3, unknown}
	h.forget()
	if h[0] != unknown || h[1] != 3 || h[2] != unknown {
		t.Errorf("heads = %v", h)
	}
}

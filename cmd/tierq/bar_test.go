package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestPicture(t *testing.T) {
	for _, c := range []struct {
		p    *progress
		done int64
		want string
	}{
		{&progress{total: 4, unit: jobsUnit}, 0, "moving   0% |                         | (0/4)"},
		{&progress{total: 4, unit: jobsUnit}, 1, "moving  25% |######                   | (1/4)"},
		{&progress{total: 4, unit: jobsUnit}, 4, "moving 100% |#########################| (4/4)"},
		{&progress{total: 4, unit: jobsUnit}, 9, "moving 100% |#########################| (9/4)"},
		{&progress{total: 3 << 20, unit: bytesUnit}, 1 << 19, "moving  16% |####                     | (0.5/3.0 MiB)"},
		{&progress{total: 900, unit: bytesUnit}, 90, "moving  10% |##                       | (90/900 B)"},
		{&progress{total: -1}, 7, "- moving [1m5s]"},
	} {
		if got := c.p.picture("moving ", c.done, 65*time.Second, 1, 80); got != c.want {
			t.Errorf("%d of %d:\n%q, want\n%q", c.done, c.p.total, got, c.want)
		}
	}
}

// A progress line never reaches the terminal's last column, whatever its text, because the terminal would then
// begin another line.
func TestPictureFits(t *testing.T) {
	for _, text := range []string{strings.Repeat("x", 300), strings.Repeat("漢", 300), strings.Repeat("e\u0301", 300),
		strings.Repeat("👍", 300)} {
		for _, total := range []int64{-1, 1, 100_000, 1 << 40} {
			for _, width := range []int{1, 20, 40, 80, 200} {
				for _, unit := range []string{jobsUnit, bytesUnit} {
					p := &progress{total: total, unit: unit}
					got := p.picture(text, max(total, 0), time.Hour+59*time.Minute+59*time.Second, 3, width)
					if columns(got) >= width {
						t.Errorf("%d columns of %d: %q", columns(got), width, got)
					}
				}
			}
		}
	}
}

// An unchanged line is not drawn again, and each drawing is one write, so that nothing flickers.
func TestProgressIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out writes
		s := &session{program: program{stderr: &out, tty: func(any) bool { return true }}}
		text := "a longer text "
		p := s.count(10, func() string { return text })
		wait := func() { <-time.After(5 * redraw); synctest.Wait() }
		wait()
		if len(out.parts) != 1 {
			t.Errorf("drawn %d times: %q", len(out.parts), out.parts)
		}
		text = "short "
		p.add(10)
		wait()
		if len(out.parts) != 2 || !strings.HasPrefix(out.parts[1], "\rshort 100%") ||
			!strings.HasSuffix(out.parts[1], "       ") {
			t.Errorf("%q does not cover the longer line before it", out.parts)
		}
		p.end()
		p.add(1)
		wait()
		if last := out.parts[len(out.parts)-1]; len(out.parts) != 3 || strings.Trim(last, "\r ") != "" {
			t.Errorf("%q is not cleared", out.parts)
		}
	})
}

// writes records each write separately.
type writes struct{ parts []string }

func (w *writes) Write(p []byte) (int, error) {
	w.parts = append(w.parts, string(bytes.Clone(p)))
	return len(p), nil
}

func TestColumns(t *testing.T) {
	for text, want := range map[string]int{"": 0, "job": 3, "漢字": 4, "e\u0301": 1, "👍": 2, "ﾊﾝ": 2, "ＡＢ": 4, "…": 1} {
		if got := columns(text); got != want {
			t.Errorf("%q: %d columns, want %d", text, got, want)
		}
	}
	if got := fit("漢字漢字", 6); got != "漢字…" {
		t.Errorf("%q", got)
	}
}

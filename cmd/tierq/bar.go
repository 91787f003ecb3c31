package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"golang.org/x/term"
)

// redraw is the time between two drawings of a progress line.
const redraw = 100 * time.Millisecond

// barWidth is the width of a bar, in columns.
const barWidth = 25

// The units of a bar.
const (
	jobsUnit  = ""
	bytesUnit = "B"
)

// progress is the line that shows a person how a command proceeds. It is shown only on a terminal, and never on
// standard output.
type progress struct {
	out   io.Writer // nil = nothing is shown
	total int64     // -1 = unknown: a spinner instead of a bar
	unit  string
	done  atomic.Int64
	stop  chan struct{}
	gone  sync.WaitGroup
	once  sync.Once

	shown string // the text on the terminal; only the drawing goroutine uses it while it runs
}

// noProgress returns a progress that shows nothing.
func noProgress() *progress { return &progress{stop: make(chan struct{})} }

// spin shows a spinner with the present text of describe. The caller must end it.
func (s *session) spin(describe func() string) *progress {
	return s.progress(-1, jobsUnit, describe)
}

// count shows a bar of total, or a spinner if total is -1; add advances it. The caller must end it.
func (s *session) count(total int64, describe func() string) *progress {
	return s.progress(total, jobsUnit, describe)
}

// countBytes is count with bytes as the unit.
func (s *session) countBytes(total int64, describe func() string) *progress {
	return s.progress(total, bytesUnit, describe)
}

func (s *session) progress(total int64, unit string, describe func() string) *progress {
	p := noProgress()
	if !s.isTTY(s.stderr) {
		return p
	}
	if total <= 0 {
		total = -1
	}
	p.out, p.total, p.unit = s.stderr, total, unit
	begun := time.Now()
	see := func(turn int) {
		p.draw(p.picture(clean(describe()), p.done.Load(), time.Since(begun), turn, terminalWidth(p.out)))
	}
	see(0) // at once, so that a waiting command says what it waits for
	p.gone.Go(func() { p.run(see) })
	return p
}

// run draws the line at each tick until the progress ends, and then once more.
func (p *progress) run(see func(turn int)) {
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	for turn := 1; ; turn++ {
		select {
		case <-p.stop:
			see(turn)
			return
		case <-tick.C:
			see(turn)
		}
	}
}

// draw replaces the line on the terminal by picture, in one write, if it has changed.
func (p *progress) draw(picture string) {
	if picture == p.shown {
		return
	}
	rest := max(columns(p.shown)-columns(picture), 0)
	fmt.Fprint(p.out, "\r"+picture+strings.Repeat(" ", rest))
	p.shown = picture
}

// picture returns a line that is narrower than width columns.
func (p *progress) picture(text string, done int64, spent time.Duration, turn, width int) string {
	var before, behind string
	if p.total < 0 {
		before, behind = string(`|/-\`[(turn+1)%4])+" ", "["+short(spent.Truncate(time.Second))+"]"
	} else {
		part := min(max(float64(done)/float64(p.total), 0), 1)
		full := int(part * barWidth)
		behind = fmt.Sprintf("%3d%% |%s%s| (%s)", int(part*100), strings.Repeat("#", full),
			strings.Repeat(" ", barWidth-full), p.counted(done))
	}
	return fit(before+fit(text, width-1-columns(before)-columns(behind))+behind, width-1)
}

// counted returns how much of the total is done, in words.
func (p *progress) counted(done int64) string {
	switch {
	case p.unit == jobsUnit:
		return fmt.Sprintf("%d/%d", done, p.total)
	case p.total < 1<<20:
		return fmt.Sprintf("%d/%d B", done, p.total)
	}
	return fmt.Sprintf("%.1f/%.1f MiB", float64(done)/(1<<20), float64(p.total)/(1<<20))
}

// add advances the bar. The next drawing shows it.
func (p *progress) add(n int) { p.done.Add(int64(n)) }

// end removes the line from the terminal, so that the next output starts at the line's beginning. A second call
// does nothing.
func (p *progress) end() {
	p.once.Do(func() {
		close(p.stop)
		p.gone.Wait()
		if p.out != nil {
			fmt.Fprint(p.out, "\r"+strings.Repeat(" ", columns(p.shown))+"\r")
		}
	})
}

// fit cuts a text to at most n columns.
func fit(text string, n int) string {
	if columns(text) <= n {
		return text
	}
	wide := 0
	for i, r := range text {
		if wide += columnsOf(r); wide > n-1 {
			if n < 1 {
				return ""
			}
			return text[:i] + "…"
		}
	}
	return text
}

// columns returns the width of a text on a terminal.
func columns(text string) (n int) {
	for _, r := range text {
		n += columnsOf(r)
	}
	return n
}

// columnsOf returns the width of a character: 0 for combining marks, 2 for East Asian letters and for pictures.
func columnsOf(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xa960 && r <= 0xa97f, r >= 0xac00 && r <= 0xd7a3,
		r >= 0xf900 && r <= 0xfaff, r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6,
		r >= 0x1f000:
		return 2
	}
	return 1
}

func terminalWidth(w io.Writer) int {
	if f, ok := w.(interface{ Fd() uintptr }); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return 80
}

package main

import (
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// redraw is the time between two pictures of what moves.
const redraw = 100 * time.Millisecond

// progress is what a person sees while a command works; elsewhere than on a terminal it is nothing. It never writes to standard output.
type progress struct {
	bar  *progressbar.ProgressBar
	stop chan struct{}
	gone sync.WaitGroup
	once sync.Once
}

// noProgress shows nothing.
func noProgress() *progress { return &progress{stop: make(chan struct{})} }

// spin shows a line that turns, with what is described at the moment. It must be ended.
func (s *session) spin(describe func() string) *progress {
	return s.progress(-1, describe)
}

// count shows a bar of total, or a line that turns if that is not known; add moves it. It must be ended.
func (s *session) count(total int64, describe func() string, more ...progressbar.Option) *progress {
	if total <= 0 {
		total = -1
	}
	return s.progress(total, describe, more...)
}

func (s *session) progress(total int64, describe func() string, more ...progressbar.Option) *progress {
	p := noProgress()
	if !s.isTTY(s.stderr) {
		return p
	}
	room := terminalWidth(s.stderr)
	if total > 0 {
		room -= len(" 100%  (100000/100000)") + barWidth + 2
	} else {
		room -= len("| [1h59m59s]  ") + 1
	}
	options := append([]progressbar.Option{
		progressbar.OptionSetWriter(s.stderr), progressbar.OptionSetWidth(barWidth),
		progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(total < 0), progressbar.OptionSpinnerType(9),
		progressbar.OptionSetSpinnerChangeInterval(0), // its own clock would read what others write
	}, more...)
	if total > 0 {
		options = append(options, progressbar.OptionShowCount())
	}
	p.bar = progressbar.NewOptions64(total, options...)
	p.gone.Go(func() {
		tick := time.NewTicker(redraw)
		defer tick.Stop()
		for {
			p.bar.Describe(cut(clean(describe()), max(room, 10)))
			select {
			case <-p.stop:
				return
			case <-tick.C:
			}
		}
	})
	return p
}

const barWidth = 25

// add moves the bar. A bar that is gone or full stays as it is.
func (p *progress) add(n int) {
	if p.bar != nil {
		_ = p.bar.Add(n)
	}
}

// end takes the picture away, so that what is printed next has the line for itself. It may be called twice.
func (p *progress) end() {
	p.once.Do(func() {
		close(p.stop)
		p.gone.Wait()
		if p.bar != nil {
			_ = p.bar.Clear()
		}
	})
}

func terminalWidth(w io.Writer) int {
	if f, ok := w.(interface{ Fd() uintptr }); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return 80
}

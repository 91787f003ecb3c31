package events

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// got reads the messages that are there: the attempts of the events, R for a Resync, B for a Bye, X for closed.
func got(s *Subscription) (text string, last job.Message) {
	synctest.Wait()
	for {
		select {
		case m, open := <-s.C():
			switch {
			case !open:
				return text + "X", last
			case m.Resync:
				text += "R "
			case m.Bye:
				text += "B "
			default:
				text += fmt.Sprint(m.Event.Attempt, " ")
			}
			last = m
		default:
			return text, last
		}
	}
}

func tell(l *line, from, to int) {
	for n := from; n <= to; n++ {
		l.tell(job.Event{ID: someID, Attempt: n})
	}
}

func TestStream_ResumesFromTheLastMessage(t *testing.T) {
	inBubble(t, func(t *testing.T, h *Hub, l *line, _ *world) {
		expect := func(what string, s *Subscription, want string) job.Message {
			t.Helper()
			text, last := got(s)
			if text != want {
				t.Fatalf("%s: %q, want %q", what, text, want)
			}
			return last
		}
		a := h.Stream("")
		begin := expect("the subscription begins: what was before is not known", a, "R ")
		tell(l, 1, 3)
		three := expect("three events", a, "1 2 3 ")
		b := h.Stream("")
		expect("a second reader, from now on", b, "")
		c := h.Stream(three.ID)
		expect("nothing missed", c, "")
		tell(l, 4, 5)
		expect("both", b, "4 5 ")
		expect("both", c, "4 5 ")
		expect("resumed after the third", h.Stream(three.ID), "4 5 ")
		expect("resumed after the beginning", h.Stream(begin.ID), "1 2 3 4 5 ")
		for _, id := range []string{"other-3", h.nonce + "-99", h.nonce + "-", h.nonce + "--1", h.nonce + "-0", "\x00"} {
			expect(fmt.Sprintf("unknown id %q", id), h.Stream(id), "R ")
		}
		expect("everything so far", a, "4 5 ")
		l.broken <- job.ErrUnavailable
		synctest.Wait()
		d := h.Stream(three.ID)
		expect("while nobody listens, what is known", d, "4 5 ")
		synctest.Wait()
	})
}

func TestStream_AGapIsTold(t *testing.T) {
	inBubble(t, func(t *testing.T, h *Hub, l *line, _ *world) {
		a := h.Stream("")
		synctest.Wait()
		tell(l, 1, 2)
		_, two := got(a)
		l.broken <- job.ErrUnavailable
		<-time.After(redialIn)
		if text, _ := got(a); text != "R " {
			t.Errorf("after the gap: %q", text)
		}
		tell(l, 3, 3)
		if text, _ := got(h.Stream(two.ID)); text != "R " {
			t.Errorf("resumed over a gap: %q", text)
		}
	})
}

func TestStream_ASlowReaderHoldsUpNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, h *Hub, l *line, _ *world) {
		slow, quick := h.Stream(""), h.Stream("")
		got(slow)
		got(quick)
		seen := ""
		for n := 1; n <= buffered+10; n++ {
			tell(l, n, n)
			text, _ := got(quick)
			seen += text
		}
		text, last := got(slow)
		want := "R "
		for n := buffered + 2; n <= buffered+10; n++ {
			want += fmt.Sprint(n, " ")
		}
		if text != want {
			t.Errorf("the slow reader got %q, want %q", text, want)
		}
		if last.ID != h.position() || len(seen) < buffered*2 {
			t.Errorf("the quick one got %d bytes, last %s", len(seen), last.ID)
		}
		// The ring keeps more events than the buffer, for readers that resume.
		tell(l, 1, ringSize+5)
		text, _ = got(h.Stream(fmt.Sprintf("%s-%d", h.nonce, h.ring.last-ringSize)))
		want = ""
		for n := 6; n <= ringSize+5; n++ {
			want += fmt.Sprint(n, " ")
		}
		if text != want {
			t.Errorf("the whole ring: %d bytes, want %d", len(text), len(want))
		}
		if text, _ := got(h.Stream(fmt.Sprintf("%s-%d", h.nonce, h.ring.last-ringSize-1))); text != "R " {
			t.Errorf("one more than the ring: %.20q", text)
		}
	})
}

func TestStream_Bye(t *testing.T) {
	inBubble(t, func(t *testing.T, h *Hub, l *line, _ *world) {
		a, full, closed := h.Stream(""), h.Stream(""), h.Stream("")
		synctest.Wait()
		closed.Close()
		got(a)
		got(full)
		tell(l, 1, buffered)
		got(a)
		h.Drain()
		h.Drain()
		for what, s := range map[string]*Subscription{"a reader": a, "one that comes later": h.Stream("")} {
			if text, last := got(s); text != "B X" || last.ID != "" {
				t.Errorf("%s: %q, id %q", what, text, last.ID)
			}
			s.Close()
		}
		if text, _ := got(closed); text != "R X" {
			t.Errorf("a closed one: %q", text)
		}
		if text, _ := got(full); text != "B X" {
			t.Errorf("a full one: %.20q", text)
		}
	})
}

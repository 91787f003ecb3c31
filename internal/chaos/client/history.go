package client

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/job"
)

// history is the record of what the clients sent and saw. It is in memory and, line by line at once, in a file.
type history struct {
	mu          sync.Mutex
	file        *os.File // nil = no file
	wrong       error    // the first write that failed
	ops         []check.Op
	polls       []check.Poll
	same        map[view]streak
	beside      check.Witness
	batchesSeen []check.BatchSeen
	outside
	occurrences occurrences
}

// line is one entry of the file. The file has an op twice: when it is sent, and with its outcome. An op of which
// only the first entry exists has an unknown fate.
type line struct {
	Sent *check.Op   `json:"sent,omitempty"`
	Done *check.Op   `json:"done,omitempty"`
	Poll *check.Poll `json:"poll,omitempty"`

	Key      string          `json:"key,omitempty"` // of the submit that Asked belongs to
	Asked    *check.Asked    `json:"asked,omitempty"`
	Stranger *check.Stranger `json:"stranger,omitempty"`
	Called   *check.Call     `json:"called,omitempty"`

	Batch *check.BatchSeen `json:"batch,omitempty"`
	Round *check.RoundCall `json:"round,omitempty"`

	Ran  *check.Run        `json:"ran,omitempty"`  // by an outsider: when it begins, and when it ends
	Told *check.WorkerCall `json:"told,omitempty"` // by an outsider

	Wished  *check.ScheduleWish   `json:"wished,omitempty"`
	Changed *check.ScheduleChange `json:"changed,omitempty"`
}

type view struct {
	by string
	id job.ID
}

// streak is how many equal polls came in a row, and the index of the last one in polls.
type streak struct{ n, last int }

func openHistory(path string) (*history, error) {
	h := &history{same: map[view]streak{}, beside: check.Witness{Asked: map[string]check.Asked{}}}
	if path == "" {
		return h, nil
	}
	var err error
	if h.file, err = os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
		return nil, fmt.Errorf("open the history: %w", err)
	}
	return h, nil
}

// Close closes the file. Its error says that an entry was not written to it.
func (h *history) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.file == nil {
		return h.wrong
	}
	err := errors.Join(h.wrong, h.file.Close())
	h.file = nil
	return err
}

// Ops returns all requests that have been answered or given up.
func (h *history) Ops() []check.Op {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.ops)
}

// Polls returns the polls. Of equal answers in a row, to one poller about one job, it has the first and the last.
func (h *history) Polls() []check.Poll {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.polls)
}

func (h *history) asked(op *check.Op) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.write(line{Sent: op})
}

func (h *history) wrote(op *check.Op) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, *op)
	h.write(line{Done: op})
}

func (h *history) saw(p check.Poll) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keep(p)
	h.write(line{Poll: &p})
}

// keep adds a poll to the memory. The caller holds mu.
func (h *history) keep(p check.Poll) {
	v := view{p.By, p.ID}
	s, seen := h.same[v]
	if before := s.last; seen && alike(&h.polls[before], &p) {
		if s.n++; s.n > 2 {
			h.polls[before] = p
			h.same[v] = s
			return
		}
	} else {
		s.n = 1
	}
	s.last = len(h.polls)
	h.polls = append(h.polls, p)
	h.same[v] = s
}

func alike(x, y *check.Poll) bool {
	return x.HTTP == y.HTTP && x.Status == y.Status && x.Generation == y.Generation && x.ResultSum == y.ResultSum
}

// write appends an entry with one write and without a buffer, so that a run that is killed loses none. The caller
// holds mu.
func (h *history) write(l line) {
	if h.file == nil {
		return
	}
	text, err := json.Marshal(l)
	if err == nil {
		_, err = h.file.Write(append(text, '\n'))
	}
	if err != nil && h.wrong == nil {
		h.wrong = fmt.Errorf("write the history: %w", err)
	}
}

// ReadHistory reads a history's file, also of a load that was killed. A request without an answer has an unknown
// fate. A last line that was cut off is left out.
func ReadHistory(path string) ([]check.Op, []check.Poll, error) {
	h := &history{same: map[view]streak{}}
	open := map[string][]check.Op{} // sent and not answered, by about()
	known := map[string]string{}
	err := eachLine(path, func(text []byte) error {
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return err
		}
		switch {
		case l.Sent != nil:
			open[about(l.Sent)] = append(open[about(l.Sent)], *l.Sent)
		case l.Done != nil:
			waiting := open[about(l.Done)]
			if i := slices.IndexFunc(waiting, func(o check.Op) bool { return o.Sent.Equal(l.Done.Sent) }); i >= 0 {
				open[about(l.Done)] = slices.Delete(waiting, i, i+1)
			}
			h.ops = append(h.ops, *l.Done)
		case l.Poll != nil:
			p := *l.Poll
			p.By, p.ID = shared(known, p.By), job.ID(shared(known, string(p.ID)))
			p.ResultSum, p.Status = shared(known, p.ResultSum), job.Status(shared(known, string(p.Status)))
			h.keep(p)
		}
		return nil
	})
	for _, ops := range open {
		h.ops = append(h.ops, ops...)
	}
	slices.SortStableFunc(h.ops, func(x, y check.Op) int { return x.Sent.Compare(y.Sent) })
	return h.ops, h.polls, err
}

// about returns the name under which an op's two entries are matched. For a submit that is the key: its id comes
// only with the answer.
func about(op *check.Op) string {
	if op.Kind == "submit" {
		return op.Key
	}
	return op.Kind + " " + string(op.ID)
}

// shared returns one copy for equal texts, to save memory.
func shared(known map[string]string, s string) string {
	if one, ok := known[s]; ok {
		return one
	}
	known[s] = s
	return s
}

// eachLine calls take with each line of a file. A last line without an end counts only if it is valid JSON. A file
// that does not exist has no lines.
func eachLine(path string, take func([]byte) error) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // no process has written anything
	}
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<20)
	for n := 1; ; n++ {
		text, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			if len(bytes.TrimSpace(text)) > 0 && json.Valid(text) {
				return take(text)
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		if err := take(text); err != nil {
			return fmt.Errorf("%s line %d: %w", path, n, err)
		}
	}
}

package faktory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/tierq/tierq/internal/job"
)

// mutation is the text of a MUTATE.
type mutation struct {
	Cmd    string  `json:"cmd"`
	Target string  `json:"target"`
	Filter *filter `json:"filter"`
}

// filter chooses jobs: by jid, and if it names none, by type and pattern. A nil filter takes all.
type filter struct {
	Jids    []string `json:"jids"`
	Type    string   `json:"jobtype"`
	Pattern string   `json:"regexp"` // a glob as Redis has them, over the JSON of the job
}

// mostLooks is how many jobs one MUTATE looks at.
const mostLooks = 10_000

// errEnough ends a MUTATE that has looked at so many jobs.
var errEnough = errors.New("enough")

const mutated = "MUTATE by a Faktory client"

// mutate serves MUTATE: it cancels, kills or hastens jobs that wait, and requeues or dismisses dead letters.
func (c *conn) mutate(ctx context.Context, text []byte) error {
	if !c.caller.Admin() {
		return c.refuse(notAllowed)
	}
	var m mutation
	if err := json.Unmarshal(text, &m); err != nil {
		return c.fail("invalid format: " + err.Error())
	}
	if !slices.Contains([]string{"clear", "kill", "discard", "requeue"}, m.Cmd) {
		return c.fail("unknown mutate operation")
	}
	var err error
	switch m.Target {
	case "scheduled", "retries":
		err = c.server.mutateWaiting(ctx, &m)
	case "dead":
		err = c.server.mutateDead(ctx, &m)
	default:
		return c.fail("invalid target for mutation command")
	}
	if err != nil {
		return c.refuse(err)
	}
	return c.ok()
}

// mutateWaiting changes jobs that wait for their time, or for a retry.
func (s *Server) mutateWaiting(ctx context.Context, m *mutation) error {
	all, looked := m.Filter == nil || m.Cmd == "clear", 0
	var chosen []job.ID
	err := s.each(ctx, job.Filter{Status: job.Scheduled, Retrying: m.Target == "retries"}, func(j *job.Job) error {
		if queue, known := s.Queues.Find(j.QueueName()); !known || !queue.Faktory ||
			m.Target == "scheduled" && j.RetryCount > 0 {
			return nil
		}
		if looked++; looked > mostLooks {
			return errEnough
		}
		if !all {
			whole, err := s.Jobs.Find(ctx, j.ID)
			if err != nil || !m.Filter.takes(whole.Type, whole.Payload) {
				return ignoreMissing(err)
			}
		}
		chosen = append(chosen, j.ID)
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	for _, id := range chosen {
		switch m.Cmd {
		case "kill":
			if err = s.Jobs.Kill(ctx, id, mutated); err == nil {
				s.dead.expect(id)
			}
		case "requeue":
			err = s.Jobs.Hasten(ctx, id)
		default:
			_, err = s.Jobs.Cancel(ctx, id, "")
		}
		if err = ignoreMissing(err); err != nil {
			return err
		}
	}
	return nil
}

// mutateDead changes dead letters. A kill of them changes nothing.
func (s *Server) mutateDead(ctx context.Context, m *mutation) error {
	s.dead.settle(ctx, s.Jobs.IsDead)
	all, looked := m.Filter == nil || m.Cmd == "clear", 0
	var chosen []job.ID
	err := s.Jobs.EachDead(ctx, job.Filter{}, func(l job.DeadLetter) error {
		if queue, known := s.Queues.Find(l.QueueName()); !known || !queue.Faktory {
			return nil
		}
		if looked++; looked > mostLooks {
			return errEnough
		}
		if all || m.Filter.takes(l.Type, l.Payload) {
			chosen = append(chosen, l.ID)
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	for _, id := range chosen {
		switch m.Cmd {
		case "kill":
			return nil
		case "requeue":
			err = s.Jobs.Requeue(ctx, id, job.Request{Reason: mutated})
		default:
			err = s.Jobs.Dismiss(ctx, id, mutated)
		}
		if err = ignoreMissing(err); err != nil {
			return err
		}
	}
	return nil
}

// ignoreMissing passes over a job that has moved meanwhile.
func ignoreMissing(err error) error {
	if errors.Is(err, job.ErrNotFound) || errors.Is(err, job.ErrWrongState) {
		return nil
	}
	return err
}

// takes says whether a filter takes a job.
func (f *filter) takes(typ string, payload []byte) bool {
	if len(f.Jids) > 0 {
		p, err := readJob(payload)
		return err == nil && slices.Contains(f.Jids, p.Jid)
	}
	if f.Type != "" && f.Type != typ {
		return false
	}
	if f.Pattern == "" {
		return true
	}
	var compact bytes.Buffer // patterns are written for JSON without spaces
	if json.Compact(&compact, payload) != nil {
		return false
	}
	return glob(f.Pattern, compact.String())
}

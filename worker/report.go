package worker

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
)

// The bounds of the reports that one call carries.
const (
	mostReports     = 1000
	mostReportBytes = 4 << 20
)

// report is the end of an attempt that the server has not acknowledged.
type report struct {
	attempt  *attempt
	text     json.RawMessage
	alone    bool // no claim carries it: a call with it has failed
	single   bool // it goes in a call of its own: a call with it was refused
	replaced bool // it says only that the first one was refused
}

// takeReports takes the oldest reports that one call may carry. A call by a claimer is a claim: it carries the reports
// that were in no call yet. A call without a claim (by = nil) carries the others, and all reports while no claimer is
// hungry.
func (w *Worker) takeReports(by *claimer) []*report {
	w.mu.Lock()
	defer w.mu.Unlock()
	hungry := w.hungry()
	var taken, left []*report
	size := 0
	for _, r := range w.ended {
		full := len(taken) == mostReports || len(taken) > 0 &&
			(size+len(r.text) > mostReportBytes || r.single || taken[0].single)
		if full || by != nil && r.alone || by == nil && hungry && !r.alone {
			left = append(left, r)
			continue
		}
		taken, size = append(taken, r), size+len(r.text)
	}
	w.ended = left
	if by != nil {
		by.hungry = false
		signal(w.toSend)
	}
	return taken
}

// putBack keeps reports for another call, without a claim.
func (w *Worker) putBack(reports []*report) {
	if len(reports) == 0 {
		return
	}
	w.mu.Lock()
	for _, r := range reports {
		r.alone = true
	}
	w.ended = append(reports, w.ended...)
	w.mu.Unlock()
	signal(w.toSend)
}

// reports sends the reports that no claim carries, until ctx ends.
func (w *Worker) reports(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		batch := w.takeReports(nil)
		if len(batch) == 0 {
			select {
			case <-w.toSend:
			case <-ctx.Done():
			}
			continue
		}
		again, err := w.report(ctx, batch)
		w.putBack(again)
		if err == nil {
			failures = 0
			continue
		}
		failures++
		w.log.Warn("reports were not answered, and are sent again", "reports", len(again), "err", err)
		rest(ctx, pause(failures, err))
	}
}

// report makes one call, and returns the reports that have to be sent again.
func (w *Worker) report(ctx context.Context, batch []*report) (again []*report, err error) {
	var answer struct {
		Reports []reported `json:"reports"`
	}
	body := struct {
		Worker  string            `json:"worker"`
		Reports []json.RawMessage `json:"reports"`
	}{w.name, texts(batch)}
	err = w.call(ctx, "report", &body, &answer, callTime)
	var refused *refusal
	switch {
	case errors.As(err, &refused) && refused.final():
		if len(batch) > 1 {
			for _, r := range batch {
				r.single = true
			}
			return batch, nil
		}
		return w.replace(batch[0], refused.Detail), nil
	case err != nil:
		return batch, err
	}
	return w.acknowledge(batch, answer.Reports)
}

func texts(batch []*report) []json.RawMessage {
	all := make([]json.RawMessage, len(batch))
	for i, r := range batch {
		all[i] = r.text
	}
	return all
}

// reported is the server's answer to one report.
type reported struct {
	Outcome string   `json:"outcome"`
	Error   *refusal `json:"error"`
}

// acknowledge lets go of the jobs whose reports were answered. It returns the reports that have to be sent again, and
// an error if there are any because of the server's store.
func (w *Worker) acknowledge(batch []*report, answers []reported) (again []*report, err error) {
	for i, r := range batch {
		if i >= len(answers) {
			return append(again, batch[i:]...), errors.New("the answer lacks reports")
		}
		e := answers[i].Error
		switch {
		case e == nil:
		case e.ErrorCode == "LEASE_LOST":
			w.log.Info("the job is not this worker's any more, and its report counts nothing", "job_id", r.attempt.ID)
		case e.final():
			again = append(again, w.replace(r, e.Detail)...)
			continue
		default:
			again, err = append(again, r), e
			continue
		}
		w.release(r)
	}
	return again, err
}

// release forgets a job.
func (w *Worker) release(r *report) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.held, r.attempt.Sealed)
}

// replace returns the report of a permanent failure, in place of a report that the server refuses: too large a result
// for example, with which each attempt would end. If the server refuses the second report too, the lease runs out.
func (w *Worker) replace(r *report, why string) []*report {
	w.log.Error("the server refuses a report", "job_id", r.attempt.ID, "why", why)
	if r.replaced {
		w.release(r)
		return nil
	}
	failure := &failed{Error: failure{Message: short("the server refused the report: " + why)}, Permanent: true}
	text := encoded(entry{Lease: r.attempt.Sealed, Failed: failure})
	return []*report{{attempt: r.attempt, text: text, alone: true, single: true, replaced: true}}
}

// final says whether the same call would be refused again.
func (r *refusal) final() bool {
	return r.Status >= 400 && r.Status < 500 && r.Status != http.StatusTooManyRequests &&
		r.Status != http.StatusRequestTimeout
}

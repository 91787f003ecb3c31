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
	said     *entry
	text     json.RawMessage // of said
	alone    bool            // no claim carries it: a call with it has failed
	single   bool            // it goes in a call of its own: a call with it was refused
	replaced bool            // it says only that the first one was refused
}

func newReport(a *attempt, said *entry) *report {
	return &report{attempt: a, said: said, text: encoded(said)}
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
	var answer reportAnswer
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

// acknowledge lets go of the jobs whose reports were answered. It returns the reports that have to be sent again, and
// an error if there are any because of the server's store, or because the answer lacks them.
func (w *Worker) acknowledge(batch []*report, answers []*reported) (again []*report, err error) {
	for i, r := range batch {
		var answer *reported
		if i < len(answers) {
			answer = answers[i]
		}
		switch {
		case !answer.understood():
			again, err = append(again, r), errors.New("the answer lacks reports, or is not understood")
		case answer.Error == nil:
			w.release(r)
		case answer.Error.ErrorCode == "LEASE_LOST":
			r.late()
			w.release(r)
		case answer.Error.final():
			again = append(again, w.replace(r, answer.Error.Detail)...)
		default:
			again, err = append(again, r), answer.Error
		}
	}
	return again, err
}

// late says in the log that the report counts nothing.
func (r *report) late() {
	why := "not known"
	switch cause := r.attempt.cause; {
	case errors.Is(cause, ErrMaxTime):
		why = "its maximum processing time was over"
	case errors.Is(cause, ErrLeaseLost):
		why = "its lease was lost"
	}
	r.attempt.warn("the server did not take its result: the attempt had ended before", "why", why)
}

// release forgets a job.
func (w *Worker) release(r *report) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.held, r.attempt.Sealed)
}

// replace returns what stands in for a report that the server refuses. If the server refuses that too, the lease runs
// out.
func (w *Worker) replace(r *report, why string) []*report {
	w.log.Error("the server refuses a report", "job_id", r.attempt.ID, "why", why)
	if r.replaced {
		w.release(r)
		return nil
	}
	other := newReport(r.attempt, r.said.refused(why))
	other.alone, other.single, other.replaced = true, true, true
	return []*report{other}
}

// final says whether the same call would be refused again.
func (r *refusal) final() bool {
	return r.Status >= 400 && r.Status < 500 && r.Status != http.StatusTooManyRequests &&
		r.Status != http.StatusRequestTimeout
}

package httpapi

import (
	"slices"

	"github.com/gin-gonic/gin"

	"github.com/tierq/tierq/internal/job"
)

// attemptBody is one attempt of a job. Outcome is RUNNING, SUCCESS, FAILURE (with its cause), RELEASED, LATER or
// CANCELLED.
type attemptBody struct {
	Attempt    int        `json:"attempt"`
	Generation *int       `json:"generation"` // null = not known any more
	Worker     *string    `json:"worker"`
	StartedAt  *string    `json:"startedAt"`
	FinishedAt *string    `json:"finishedAt"`
	Outcome    string     `json:"outcome"`
	Cause      *job.Cause `json:"cause"`
	Error      *string    `json:"error"`
	Reason     *string    `json:"reason"` // of a LATER: why the handler asked for it
	Until      *string    `json:"until"`  // of a LATER
}

// history returns a job's attempts, oldest first: the stored ones, which did not end well, and the latest one,
// which the job's own fields describe.
func history(j *job.Job, stored []job.Attempt) []attemptBody {
	all := make([]attemptBody, 0, len(stored)+1)
	for i := range stored {
		all = append(all, attemptOf(&stored[i]))
	}
	if n := len(stored); j.Attempt == 0 || n > 0 && stored[n-1].Number >= j.Attempt {
		return all
	}
	last := attemptBody{
		Attempt:    j.Attempt,
		Generation: known(j.Generation),
		Worker:     orNull(j.Worker),
		StartedAt:  when(j.StartedAt),
		FinishedAt: when(j.EndedAt),
	}
	switch j.Status.Shown() {
	case job.Processing:
		last.Outcome, last.FinishedAt = "RUNNING", nil
	case job.Completed:
		last.Outcome = "SUCCESS"
	case job.Cancelled:
		last.Outcome = "CANCELLED"
	case job.Failed:
		last.Outcome, last.Cause, last.Error = "FAILURE", orNull(j.Cause), orNull(j.LastError)
	default: // the job waits again: how its latest attempt ended is not stored any more
		return all
	}
	return append(all, last)
}

func attemptOf(a *job.Attempt) attemptBody {
	b := attemptBody{
		Attempt: a.Number, Generation: known(a.Generation), Worker: orNull(a.Worker), StartedAt: when(a.StartedAt),
		FinishedAt: when(a.FinishedAt),
		Outcome:    a.Outcome, Error: orNull(a.Error), Until: when(a.Until),
	}
	switch a.Outcome {
	case "LATER":
		b.Reason, b.Error = b.Error, nil
	case "RELEASED", "CANCELLED":
	default:
		b.Outcome, b.Cause = "FAILURE", orNull(job.Cause(a.Outcome))
	}
	return b
}

// known returns nil for 0, which stands for a number that is not known.
func known(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}

// reasonBody is the reason that was given for a cancel or a requeue.
type reasonBody struct {
	Action     string  `json:"action"`
	Generation int     `json:"generation"`
	At         *string `json:"at"`
	Reason     string  `json:"reason"`
}

// reasons returns the reasons that were given for cancelling and requeueing a job. It returns nil if SQL does not
// answer, so that the rest of the job can still be shown.
func (a *api) reasons(c *gin.Context, j *job.Job) *[]reasonBody {
	kept, err := a.Jobs.Reasons(c.Request.Context(), j)
	if err != nil {
		a.Log.WarnContext(c.Request.Context(), "the reasons of cancels and requeues could not be read",
			"job_id", j.ID, "err", err)
		return nil
	}
	hidden := slices.Contains(a.veilFor(c, j.Type), everything)
	bodies := make([]reasonBody, len(kept))
	for i, r := range kept {
		if hidden {
			r.Text = veiled
		}
		bodies[i] = reasonBody{r.Action, r.Generation, when(r.At), r.Text}
	}
	return &bodies
}

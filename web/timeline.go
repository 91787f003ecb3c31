package web

import "time"

// step is one stop of a job's life, and what led to it.
type step struct {
	Kind    string // accepted, attempt, ended, waits
	Edge    string // what the job did until here: "waited", "ran", "backed off"
	EdgeFor string // for how long; "" = not known
	At      time.Time
	Attempt *Attempt // of an attempt
	RanFor  string
	Status  string // of the end, or of where it stands
}

// timeline tells a job's life as far as it is known: accepted, then each attempt as a branch, then its end or where it
// stands. An attempt ends where the next one begins to wait.
func timeline(j *Job, now time.Time) []step {
	arrived := j.ArrivedAt
	var steps []step
	if len(j.Attempts) > 0 && j.Attempts[0].StartedAt.Before(arrived) {
		arrived = time.Time{} // the arrival is that of a later life
	}
	steps = append(steps, step{Kind: "accepted", At: arrived})
	since := arrived
	for i := range j.Attempts {
		a := &j.Attempts[i]
		until := a.FinishedAt
		if until.IsZero() {
			until = now
		}
		s := step{Kind: "attempt", Edge: "waited", At: a.StartedAt, Attempt: a, EdgeFor: between(since, a.StartedAt),
			RanFor: between(a.StartedAt, until)}
		if i > 0 && !j.ArrivedAt.After(a.StartedAt) && j.ArrivedAt.After(since) {
			steps = append(steps, step{Kind: "requeued", Edge: "was dead", EdgeFor: between(since, j.ArrivedAt),
				At: j.ArrivedAt})
			s.EdgeFor = between(j.ArrivedAt, a.StartedAt)
		}
		steps = append(steps, s)
		since = a.FinishedAt
	}
	switch {
	case j.Ended():
		edge := ""
		if len(j.Attempts) == 0 {
			edge = "waited"
		}
		steps = append(steps, step{Kind: "ended", Edge: edge, EdgeFor: between(since, j.EndedAt), At: j.EndedAt,
			Status: j.Status})
	case j.Status != "PROCESSING":
		if j.ArrivedAt.After(since) {
			since = j.ArrivedAt
		}
		steps = append(steps, step{Kind: "waits", Edge: "has waited", EdgeFor: between(since, now), Status: j.Status})
	}
	return steps
}

// bar is one stretch of the strip that shows where a job's time went. X and W are thousandths of its length.
type bar struct {
	X, W  int
	Tone  string
	Title string
}

// strip is where the time went, from arrival to the end or to now; nil if that is not known.
func strip(j *Job, now time.Time) []bar {
	end := j.EndedAt
	if end.IsZero() {
		end = now
	}
	begin := j.ArrivedAt
	if len(j.Attempts) > 0 && j.Attempts[0].StartedAt.Before(begin) {
		begin = j.Attempts[0].StartedAt
	}
	whole := end.Sub(begin)
	if begin.IsZero() || whole <= 0 {
		return nil
	}
	place := func(from, to time.Time) (x, w int) {
		x = int(1000 * from.Sub(begin) / whole)
		w = int(1000*to.Sub(begin)/whole) - x
		return x, max(w, 4)
	}
	bars := []bar{{X: 0, W: 1000, Tone: "wait", Title: "waiting"}}
	for i := range j.Attempts {
		a := &j.Attempts[i]
		until := a.FinishedAt
		if until.IsZero() {
			until = end
		}
		b := bar{Tone: tone(a.Outcome), Title: "attempt " + count(a.Number) + ": " + between(a.StartedAt, until)}
		b.X, b.W = place(a.StartedAt, until)
		b.X = min(b.X, 1000-b.W)
		bars = append(bars, b)
	}
	return bars
}

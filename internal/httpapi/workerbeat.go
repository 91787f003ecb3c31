package httpapi

import (
	"errors"
	"math"
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tierq/tierq/internal/job"
)

const (
	maxBeats      = 1000
	maxCheckpoint = 16 << 10
)

var beatShape = shape[job.WorkerBeat]{members: map[string]member[job.WorkerBeat]{
	"lease": func(b *job.WorkerBeat, v jsontext.Value) error {
		if b.Sealed = text(v); b.Sealed == "" {
			return reason("must be a lease")
		}
		return nil
	},
	"extendSeconds": func(b *job.WorkerBeat, v jsontext.Value) (err error) {
		b.Extend, err = wholeSeconds(v, leastLease, mostLease)
		return err
	},
	"save": func(b *job.WorkerBeat, v jsontext.Value) (err error) {
		b.Save, err = wholeNumber(v, 1, math.MaxInt32)
		return err
	},
	"checkpoint": func(b *job.WorkerBeat, v jsontext.Value) error {
		if len(v) > maxCheckpoint {
			return reason("has more than 16384 bytes")
		}
		b.Checkpoint = v
		return nil
	},
	"progress": func(b *job.WorkerBeat, v jsontext.Value) error {
		var asked progressAsked
		if err := progressShape.readObject(v, &asked); err != nil {
			return err
		}
		b.Step, b.Progress = int64(asked.step), &asked.Progress
		return nil
	},
}}

// progressAsked is how far an attempt is.
type progressAsked struct {
	job.Progress
	step int
}

var progressShape = shape[progressAsked]{members: map[string]member[progressAsked]{
	"step": func(p *progressAsked, v jsontext.Value) (err error) {
		p.step, err = wholeNumber(v, 1, math.MaxInt32)
		return err
	},
	"done":  func(p *progressAsked, v jsontext.Value) (err error) { p.Done, err = amount(v); return err },
	"total": func(p *progressAsked, v jsontext.Value) (err error) { p.Total, err = amount(v); return err },
	"note": func(p *progressAsked, v jsontext.Value) error {
		if p.Note = text(v); v.Kind() != '"' || len(p.Note) > job.MaxProgressNote {
			return reason("must be a text of at most 200 bytes")
		}
		return nil
	},
}}

// mostAmount is the greatest number that every JSON reader takes exactly.
const mostAmount = 1<<53 - 1

func amount(v jsontext.Value) (int64, error) {
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil || n < 0 || n > mostAmount {
		return 0, reason("must be a whole number, 0 or more")
	}
	return n, nil
}

// leaseShape reads the lease of an entry whatever else the entry has.
var leaseShape = shape[job.WorkerBeat]{
	members: map[string]member[job.WorkerBeat]{"lease": beatShape.members["lease"]},
	others:  func(*job.WorkerBeat, string, jsontext.Value) error { return nil },
	lists:   true,
}

// beatsAsked is the body of a heartbeat. wrong says of each entry what of it could not be read: such an entry extends
// its lease and nothing else.
type beatsAsked struct {
	worker string // "" = it does not say
	beats  []job.WorkerBeat
	wrong  []error
}

var beatsShape = shape[beatsAsked]{lists: true, members: map[string]member[beatsAsked]{
	"worker": func(a *beatsAsked, v jsontext.Value) (err error) { a.worker, err = workerName(v); return err },
	"leases": func(a *beatsAsked, v jsontext.Value) error {
		entries, err := splitArray(v)
		if err != nil {
			return reason("must be a list of leases")
		}
		if len(entries) > maxBeats {
			return reason("has more than 1000 leases")
		}
		a.beats, a.wrong = make([]job.WorkerBeat, len(entries)), make([]error, len(entries))
		for i, entry := range entries {
			a.beats[i], a.wrong[i] = readBeat(entry)
		}
		return nil
	},
}}

// readBeat reads an entry of a heartbeat. With an error it returns the entry's lease alone, or none.
func readBeat(entry []byte) (b job.WorkerBeat, err error) {
	err = readEntry(entry, 1, &beatShape, &b)
	switch {
	case err != nil:
	case b.Sealed == "":
		err = invalid("lease", "is missing")
	case (b.Save > 0) != (b.Checkpoint != nil):
		err = invalid("checkpoint", "goes with save, which is its number, and neither goes alone")
	default:
		return b, nil
	}
	b = job.WorkerBeat{}
	_ = leaseShape.readObject(entry, &b) // the error is the one above
	return b, err
}

// pulseBody is the answer about one lease.
type pulseBody struct {
	Word       job.Word     `json:"word"`
	LeaseForMs int64        `json:"leaseForMs,omitzero"`
	Error      *problemBody `json:"error,omitempty"`
}

// workerHeartbeat serves POST /api/worker/heartbeat.
func (a *api) workerHeartbeat(c *gin.Context) error {
	var asked beatsAsked
	done, err := a.readWorker(c, func(body []byte) error { return beatsShape.readObject(body, &asked) })
	defer done()
	began := a.Now()
	switch {
	case err != nil:
		return err
	case len(asked.beats) == 0:
		return invalid("leases", "is missing: 1 to 1000 leases")
	}
	pulses, err := a.Leases.Heartbeat(c.Request.Context(), callerOf(c).Owner(), asked.beats)
	if err != nil {
		return inDoubtReport(err)
	}
	now := a.Now()
	body := struct {
		State  job.WorkerState `json:"state"`
		HeldMs int64           `json:"heldMs"`
		Leases []pulseBody     `json:"leases"`
	}{job.WorkerRuns, now.Sub(began).Milliseconds(), make([]pulseBody, len(pulses))}
	running, key := 0, callerOf(c).Owner()
	for i, p := range pulses {
		b := &body.Leases[i]
		b.Word = p.Word
		if p.Word != job.Lost {
			running++
			b.LeaseForMs = max(p.Until.Sub(now), 0).Milliseconds()
		}
		switch {
		case asked.wrong[i] != nil:
			b.Error = a.problemOf(c, asked.wrong[i])
		case errors.Is(p.Err, job.ErrBadLease):
			b.Error = a.problemOf(c, p.Err)
		}
	}
	if asked.worker != "" {
		a.Leases.See(job.WorkerSight{Key: key, Worker: asked.worker, Running: running})
		body.State = a.Leases.Asked(key, asked.worker)
	}
	return write(c, http.StatusOK, &body)
}

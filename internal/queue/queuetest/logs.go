package queuetest

import (
	"strconv"

	"github.com/tierq/tierq/internal/job"
)

// This file has what the audit and the model know of logs and progress.

// logs checks that the texts of a job say how many bytes its log has, that the numbers of each attempt's lines have no
// gap that no line tells of, and that SQL has the log of a job that left the outbox.
func (a *audit) logs() {
	for id, lines := range a.Logs {
		if _, ok := a.Jobs[id]; !ok || a.Acknowledged(id) {
			a.say("%s: log of a job that is acknowledged or gone", id)
		}
		var last job.LogLine
		bytes := 0
		for _, text := range lines {
			bytes += len(text)
			l, ok := job.ReadLogLine(text)
			if !ok {
				a.say("%s: a line of its log is %q", id, text)
			}
			next := l.Number - l.Lost + 1
			if l.Lost == 0 {
				next = l.Number
			}
			expected := last.Number + 1
			if l.Attempt != last.Attempt {
				expected = 1
			}
			// A gap of several attempts tells of more lines than its own attempt has.
			if l.Attempt < last.Attempt || next != expected && !(l.Lost > 0 && next < expected) {
				a.say("%s: line %d of attempt %d comes behind line %d of attempt %d", id, l.Number, l.Attempt, last.Number,
					last.Attempt)
			}
			last = l
		}
		if whole(a.Jobs[id]["log"]) != int64(bytes) {
			a.say("%s: %d bytes of log, its texts say %q", id, bytes, a.Jobs[id]["log"])
		}
	}
	for id, h := range a.Jobs {
		if h["log"] != "" && a.Logs[id] == nil && !a.Acknowledged(id) {
			a.say("%s: %s bytes of log, and there is none", id, h["log"])
		}
	}
}

// AddLine adds the line of a number, or with lost nothing but the news that the lines up to this number are lost.
func (m *Model) AddLine(l ModelLease, number int, lost bool) job.Word {
	j := l.Job
	if !l.holds() || j.State != job.Processing {
		return job.Lost
	}
	last := 0
	if n := len(j.Log); n > 0 && j.Log[n-1].Attempt == l.Attempt {
		last = j.Log[n-1].Number
	}
	if number == 0 {
		number = last + 1
	}
	if number <= last {
		return job.OK
	}
	gap := number - last - 1
	if lost {
		gap++
	}
	if gap > 0 {
		j.Log = append(j.Log, ModelLine{Attempt: l.Attempt, Number: last + gap, Lost: gap})
	}
	if !lost {
		j.Log = append(j.Log, ModelLine{Attempt: l.Attempt, Number: number})
	}
	return job.OK
}

// LineOf is what a test says in a line: the model counts its bytes.
const LineOf = "INFO 2 hi"

// logBytes returns how many bytes the job's log has.
func (j *ModelJob) logBytes() (n int) {
	for _, l := range j.Log {
		rest := LineOf
		if l.Lost > 0 {
			lost := strconv.Itoa(l.Lost)
			rest = "GAP " + strconv.Itoa(len(lost)) + " " + lost
		}
		n += len(strconv.Itoa(l.Attempt)) + len(strconv.Itoa(l.Number)) + len("1800000000000") + len(rest) + 3
	}
	return n
}

// ModelLine is a line of a log; Lost = how many lines are lost in its place.
type ModelLine struct{ Attempt, Number, Lost int }

// Tell keeps how far the holder of a lease says it is, unless a later step is there. Heartbeat was OK or CANCEL.
func (l ModelLease) Tell(step int64, done int64) {
	if step > l.Job.step {
		l.Job.step, l.Job.Done = step, strconv.FormatInt(done, 10)
	}
}

// WroteLog says what a log has, as the model has it.
func WroteLog(lines []string) (log []ModelLine) {
	for _, text := range lines {
		l, _ := job.ReadLogLine(text)
		log = append(log, ModelLine{l.Attempt, l.Number, l.Lost})
	}
	return log
}

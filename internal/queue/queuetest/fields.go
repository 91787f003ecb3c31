package queuetest

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/tierq/tierq/internal/job"
)

// The words of the texts that Redis has of a job, in their order. docs/KEYS.md explains each of them.
var (
	classWords = []string{"tier", "queue", "generation", "max_retries", "owner", "max_run_ms"}
	headWords  = []string{"arrived", "score", "bytes", "type", "trace", "options"}
	runWords   = []string{"attempt", "retries", "first", "started", "due", "token"}
	triedWords = []string{"laters", "in_row", "since", "crashes", "report", "word", "at", "cause", "error"}
)

// fieldsOf returns a job's fields by the names above, with state, payload, checkpoint, result, ended (when), cancel,
// log (the bytes of it), progress and torn (a text that cannot be read). A field that is "0" or "-" is left out.
func (s Snapshot) fieldsOf(id string) map[string]string {
	f := fields{}
	record, waits := s.Records[id]
	lease, runs := s.Columns["leases"][id]
	end, ended := s.Ends[id]
	if waits {
		class, rest, _ := strings.Cut(record, "\n")
		head, payload, ok := strings.Cut(rest, "\n")
		f.words(f.withoutOptions(class), classWords, ok)
		f.words(head, headWords, ok)
		f["payload"] = payload
	}
	if text, ok := s.Columns["tried"][id]; ok {
		f.words(f.withoutLog(text), append(append([]string{}, runWords...), triedWords...), true)
	}
	if text, ok := s.Columns["checkpoints"][id]; ok {
		if words := strings.SplitN(text, " ", 3); len(words) == 3 {
			f["checkpoint"] = words[2]
		}
	}
	score, scheduled := s.Sets["scheduled"][id]
	switch {
	case ended:
		f.end(end)
	case runs:
		f.lease(lease)
	case scheduled && score >= HeldFrom:
		f["state"] = string(job.Held)
	case scheduled:
		f["state"] = string(job.Scheduled)
	default:
		f["state"] = string(job.Pending)
	}
	return f
}

// fields are a job's fields while they are read.
type fields map[string]string

// words reads the words of a text. The last name gets the rest of the text.
func (f fields) words(text string, names []string, ok bool) {
	words := strings.SplitN(text, " ", len(names))
	needed := len(names)
	if names[needed-1] == "options" {
		needed--
	}
	if !ok || len(words) < needed {
		f["torn"] = f["torn"] + "torn: " + text
		return
	}
	for i, word := range words {
		if delete(f, names[i]); word != "0" && word != "-" && word != "" {
			f[names[i]] = word
		}
	}
}

var logWord = regexp.MustCompile(`^((?:\d+ ){5}\S+(?: \d+){4}) log=(\d+)`)

// withoutLog takes " log=<bytes>" out of what tried has of a job.
func (f fields) withoutLog(text string) string {
	if m := logWord.FindStringSubmatch(text); m != nil {
		f["log"] = m[2]
		return m[1] + text[len(m[0]):]
	}
	return text
}

// withoutExtras takes " log=<bytes>" and " progress=<text>" off the end of a text.
func (f fields) withoutExtras(text string) string {
	delete(f, "log")
	if before, progress, ok := strings.Cut(text, " progress="); ok {
		text, f["progress"] = before, progress
	}
	if before, log, ok := strings.Cut(text, " log="); ok {
		text, f["log"] = before, log
	}
	return text
}

// lease reads "class run[ log=<bytes>][ progress=<text>][ cancel]\nhead".
func (f fields) lease(text string) {
	f["state"] = string(job.Processing)
	lease, head, ok := strings.Cut(text, "\n")
	if bare, cancel := strings.CutSuffix(lease, " cancel"); cancel {
		lease, f["cancel"] = bare, "1"
	}
	f.words(f.withoutOptions(f.withoutExtras(lease)), append(append([]string{}, classWords...), runWords...), ok)
	f.words(head, headWords, ok)
}

// end reads "state ended report class run\nhead\ncause n\n", the error of n bytes, and the result.
func (f fields) end(text string) {
	parts := strings.SplitN(text, "\n", 4)
	if len(parts) < 4 {
		f["torn"] = text
		return
	}
	names := append([]string{"state", "ended", "report"}, classWords...)
	f.words(f.withoutOptions(parts[0]), append(names, runWords...), true)
	f.words(parts[1], headWords, true)
	cause, length, _ := strings.Cut(f.withoutExtras(parts[2]), " ")
	n, err := strconv.Atoi(length)
	if err != nil || n > len(parts[3]) {
		f["torn"] = text
		return
	}
	f.words(cause, []string{"cause"}, true)
	if f["error"] = parts[3][:n]; len(parts[3]) > n {
		f["result"] = parts[3][n:]
	}
}

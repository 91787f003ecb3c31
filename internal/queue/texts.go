package queue

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// This file reads and writes the texts that Redis keeps of a job. lua/prelude.lua and docs/KEYS.md name their parts.

// ownerOf returns the name under which the scripts count a job: its API key, or else the hash of a stranger's address,
// which begins with '~'; "-" if it has neither.
func ownerOf(owner string, o job.Options) string {
	if owner == "" {
		return dash(o.From)
	}
	return owner
}

// descriptor returns the part of a head that scripts do not read: "type trace" and, if there are any, options. Neither
// type nor trace has a space.
func descriptor(typ, trace string, o job.Options) string {
	text := typ + " " + dash(trace)
	o.Queue, o.MaxRunMs, o.Unique, o.Line, o.ExpiresMs = "", 0, "", "", 0 // the class has them
	if o != (job.Options{}) {
		text += " " + o.Text()
	}
	return text
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func undash(s string) string {
	if s == "-" {
		return ""
	}
	return s
}

// cutFields cuts up to len(into) words off a text and returns what follows them.
func cutFields(text string, into []string) (rest string, ok bool) {
	for i := range into {
		if into[i], text, ok = strings.Cut(text, " "); !ok && i < len(into)-1 {
			return "", false
		}
	}
	return text, true
}

// classOptions returns the options at the end of a class, each behind a space.
func classOptions(o job.Options) (text string) {
	if o.Line != "" {
		text = " line=" + o.Line
	}
	if o.Unique != "" {
		text += " uniq=" + o.Unique
	}
	return text + expiryOption(o)
}

// callbackOption returns the option with the id of a job's callback, behind a space; "" = it has none. At the end of
// the job the callback takes over its place.
func callbackOption(id job.ID, generation int, o job.Options) string {
	if o.CallbackURL == "" {
		return ""
	}
	return " callback=" + string(job.CallbackID(id, max(generation, 1)))
}

// expiryOption returns the option with the time by which a job must be claimed, behind a space; "" = there is none.
func expiryOption(o job.Options) string {
	if o.ExpiresMs == 0 {
		return ""
	}
	return " exp=" + strconv.FormatInt(o.ExpiresMs, 10)
}

// readClassOptions reads the result of classOptions, without its first space. It returns false for another text.
func readClassOptions(text string, j *job.Job) bool {
	var read job.Options
	callback := ""
	for word := range strings.SplitSeq(text, " ") {
		switch name, value, _ := strings.Cut(word, "="); name {
		case "line":
			read.Line = value
		case "uniq":
			read.Unique = value
		case "exp":
			read.ExpiresMs, _ = strconv.ParseInt(value, 10, 64)
		case "callback":
			callback = " callback=" + value
		}
	}
	j.Line, j.Unique, j.ExpiresMs = read.Line, read.Unique, read.ExpiresMs
	return classOptions(read)+callback == " "+text
}

// readClass fills in what a class says: "tier queue generation max_retries owner max_run_ms [options]".
func readClass(class string, j *job.Job) error {
	var f [6]string
	rest, ok := cutFields(class, f[:])
	if j.Line, j.Unique, j.ExpiresMs = "", "", 0; !ok || f[0] == "" || rest != "" && !readClassOptions(rest, j) {
		return fmt.Errorf("class of %s: %q", j.ID, class)
	}
	var err, err2 error
	j.Generation, err = strconv.Atoi(f[2])
	j.MaxRetries, err2 = strconv.Atoi(f[3])
	maxRun, err3 := strconv.ParseInt(f[5], 10, 64)
	if err != nil || err2 != nil || err3 != nil {
		return fmt.Errorf("class of %s: %q", j.ID, class)
	}
	j.Tier, j.Queue, j.MaxRunMs = job.Tier(f[0]), "", maxRun
	if f[1] != job.MainQueue {
		j.Queue = f[1]
	}
	if j.Owner = undash(f[4]); strings.HasPrefix(j.Owner, "~") {
		j.Owner = ""
	}
	return nil
}

// readHead fills in what a head says: "arrived score bytes type trace [options]".
func readHead(head string, j *job.Job) error {
	var f [5]string
	rest, ok := cutFields(head, f[:])
	if !ok || f[3] == "" || f[4] == "" {
		return fmt.Errorf("head of %s: %q", j.ID, head)
	}
	j.ArrivedAt, j.Type, j.TraceID = msTime(f[0]), f[3], undash(f[4])
	if rest != "" {
		options, err := job.ReadOptions(rest)
		// The class has these.
		options.Queue, options.MaxRunMs, options.Line, options.Unique = j.Queue, j.MaxRunMs, j.Line, j.Unique
		options.ExpiresMs = j.ExpiresMs
		if j.Options = options; err != nil {
			return fmt.Errorf("head of %s: %w: %w", j.ID, errOptions, err)
		}
	}
	return nil
}

// errOptions means that a head was read except for its options.
var errOptions = errors.New("its options cannot be read")

// runWords is how many words a run has.
const runWords = 6

// readRun fills in what a run says: "attempt retries first started due token". It returns the token, and when a job
// that was delayed at submit was due.
func readRun(f []string, j *job.Job) (token string, due time.Time) {
	j.Attempt, j.RetryCount, j.FirstTriedAt, j.StartedAt = number(f[0]), number(f[1]), msTime(f[2]), msTime(f[3])
	j.Worker = holder(f[5])
	return f[5], msTime(f[4])
}

// cutRun splits "class run" before its run.
func cutRun(text string) (class string, run []string, ok bool) {
	f := strings.Split(text, " ")
	if len(f) <= runWords {
		return "", nil, false
	}
	at := len(f) - runWords
	return strings.Join(f[:at], " "), f[at:], true
}

// readRecord fills in what a record says: "class\nhead\npayload".
func readRecord(record string, j *job.Job) error {
	start, body, ok := cutRecord(record)
	if !ok {
		return fmt.Errorf("record of %s: %q", j.ID, record[:min(len(record), 200)])
	}
	j.Payload = payload(body)
	class, head, _ := strings.Cut(start, "\n")
	if err := readClass(class, j); err != nil {
		return err
	}
	return readHead(head, j)
}

// cutRecord splits a record, or the beginning of one, into "class\nhead" and the payload. ok is false if the head goes
// on behind the text.
func cutRecord(record string) (start, body string, ok bool) {
	first := strings.IndexByte(record, '\n')
	second := strings.IndexByte(record[first+1:], '\n')
	if first < 0 || second < 0 {
		return "", "", false
	}
	return record[:first+1+second], record[first+second+2:], true
}

// leaseWords is what a lease says that is not the job's: length is how long it lives without a heartbeat, 0 = restore
// wrote it; due is when a job that was delayed at submit was due.
type leaseWords struct {
	token  string
	length time.Duration
	due    time.Time
}

// lengthWord begins the word of a lease that says how long it lives without a heartbeat, in ms.
const lengthWord = " for="

// readLease fills in what a lease says: "class run", " for=" with the ms that it lives unless restore wrote it, if the
// job has a line " charge=" and a number of ms, the words of readExtras, and " cancel" if a user asked to cancel the
// job.
func readLease(lease string, j *job.Job) (w leaseWords, err error) {
	lease, j.CancelRequested = strings.CutSuffix(lease, " cancel")
	lease = readExtras(lease, j)
	if i := strings.LastIndex(lease, " charge="); i >= 0 {
		lease = lease[:i]
	}
	if i := strings.LastIndex(lease, lengthWord); i >= 0 {
		lease, w.length = lease[:i], fromMs(int64(number(lease[i+len(lengthWord):])))
	}
	class, run, ok := cutRun(lease)
	if !ok {
		return w, fmt.Errorf("lease of %s: %q", j.ID, lease)
	}
	w.token, w.due = readRun(run, j)
	return w, readClass(class, j)
}

// readExtras takes " log=<bytes>", if the job has a log, and " progress=<step>:<text>", if a handler told any, off the
// end of a text.
func readExtras(text string, j *job.Job) string {
	j.Progress, j.LogBytes = nil, 0
	if i := strings.LastIndex(text, " progress="); i >= 0 {
		_, stored, _ := strings.Cut(text[i:], ":")
		text, j.Progress = text[:i], job.ReadProgress(stored)
	}
	if i := strings.LastIndex(text, " log="); i >= 0 {
		text, j.LogBytes = text[:i], number(text[i+len(" log="):])
	}
	return text
}

// readTried fills in what tried has of a job: "run laters in_row since crashes [log=<bytes>] report word at cause
// error". While the job runs, its lease knows the run better.
func readTried(text string, j *job.Job, runs bool) error {
	var run [runWords + 3]string // and laters, in_row and since
	var f [5]string
	rest, ok := cutFields(text, run[:])
	if rest != "" && (rest[0] < '0' || rest[0] > '9') {
		rest = "0 " + rest // a text of an earlier version has no crashes
	}
	crashes, behind, _ := strings.Cut(rest, " ")
	if logged, after, _ := strings.Cut(behind, " "); strings.HasPrefix(logged, "log=") {
		rest, j.LogBytes = crashes+" "+after, number(logged[len("log="):])
	}
	rest, ok2 := cutFields(rest, f[:])
	if !ok || !ok2 {
		return fmt.Errorf("attempts of %s: %q", j.ID, text)
	}
	if !runs {
		readRun(run[:runWords], j)
	}
	j.Crashes, j.Cause, j.LastError = number(f[0]), job.Cause(undash(f[4])), rest
	return nil
}

// readEnded fills in what is kept of an ended job: "state ended report class run\nhead\ncause n\n", with the words of
// readExtras behind n, its error of n bytes and its result.
func readEnded(text string, j *job.Job) error {
	line, rest, ok := strings.Cut(text, "\n")
	head, detail, ok2 := strings.Cut(rest, "\n")
	failure, texts, ok3 := strings.Cut(detail, "\n")
	cause, length, ok4 := strings.Cut(readExtras(failure, j), " ")
	n, err := strconv.Atoi(length)
	if !ok || !ok2 || !ok3 || !ok4 || err != nil || n < 0 || n > len(texts) {
		return fmt.Errorf("end of %s: %q", j.ID, text[:min(len(text), 200)])
	}
	var f [3]string
	line, _ = cutFields(line, f[:])
	class, run, ok := cutRun(line)
	if !ok {
		return fmt.Errorf("end of %s: %q", j.ID, line)
	}
	j.Status, j.EndedAt, j.Cause, j.LastError = job.Status(f[0]), msTime(f[1]), job.Cause(undash(cause)), texts[:n]
	j.Result = payload(texts[n:])
	readRun(run, j)
	if err := readClass(class, j); err != nil {
		return err
	}
	return readHead(head, j)
}

// readAttempt reads a line of a job's history: "attempt started finished outcome worker error". The error of a LATER is
// "until reason"; earlier builds left it empty.
func readAttempt(line string, generation int) (job.Attempt, error) {
	f := strings.SplitN(line, " ", 6)
	if len(f) != 6 {
		return job.Attempt{}, fmt.Errorf("attempt of %d parts: %q", len(f), line)
	}
	n, err := strconv.Atoi(f[0])
	if err != nil {
		return job.Attempt{}, fmt.Errorf("attempt: %w", err)
	}
	a := job.Attempt{
		Number: n, Generation: generation, StartedAt: msTime(f[1]), FinishedAt: msTime(f[2]), Outcome: f[3], Worker: f[4],
		Error: f[5],
	}
	if a.Outcome == "LATER" {
		var until string
		until, a.Error, _ = strings.Cut(a.Error, " ")
		a.Until = msTime(until)
	}
	return a, nil
}

// holder is the process in a lease's token, <nonce>:<claim number>.
func holder(token string) string {
	if i := strings.LastIndexByte(token, ':'); i >= 0 {
		return token[:i]
	}
	return ""
}

// number reads a count; "" is 0.
func number(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// payload is nil, not empty, for a job without one.
func payload(text string) []byte {
	if text == "" {
		return nil
	}
	return []byte(text)
}

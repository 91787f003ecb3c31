package job

import (
	"strconv"
	"strings"
	"time"
)

// The bounds of a job's log. Redis holds a log to MaxLogLines and MaxLogBytes: the oldest lines behind the first
// hundred go.
const (
	MaxLogLine  = 4 << 10 // bytes of the text and of the attributes of a line
	MaxLogLines = 2000
	MaxLogBytes = 256 << 10
	// MaxLogNumber is the highest number of a line of an attempt.
	MaxLogNumber = 999_999
)

// GapLevel is the level of a line that stands for lines that are lost.
const GapLevel = "GAP"

// LogLine is a line of a job's log.
type LogLine struct {
	Attempt int
	Number  int       // of the line in its attempt, from 1; of a gap, that of the last lost line
	At      time.Time // by Redis' clock
	Level   string    // "DEBUG", "INFO", "WARN", "ERROR"; GapLevel
	Text    string
	Attrs   []byte // a JSON object; nil = none
	Lost    int    // of a gap: how many lines are lost
}

// logNumbers is how many numbers an attempt has in the sequence of its job's lines.
const logNumbers = MaxLogNumber + 1

// Seq returns the place of the line in its job's log: it grows from line to line, over all attempts and generations.
func (l *LogLine) Seq() int64 { return int64(l.Attempt)*logNumbers + int64(l.Number) }

// LogEntry is a line on its way to Redis. A line without a level stands for the line of its number, and those before
// it, which are lost.
type LogEntry struct {
	LeaseRef
	Number int           // 0 = one more than the last line of the log
	Age    time.Duration // since the line was written
	Level  string
	Text   string
	Attrs  []byte
}

// Rest returns the part of the line that scripts do not read: "level n text attrs"; "" of a line that is lost.
func (e *LogEntry) Rest() string {
	if e.Level == "" {
		return ""
	}
	return e.Level + " " + strconv.Itoa(len(e.Text)) + " " + e.Text + string(e.Attrs)
}

// Size returns roughly how many bytes the line takes in a call.
func (e *LogEntry) Size() int { return 128 + len(e.Text) + len(e.Attrs) }

// ReadLogLine reads "attempt number at level n text attrs", n being the bytes of the text; false for another line.
func ReadLogLine(line string) (l LogLine, ok bool) {
	f := strings.SplitN(line, " ", 6)
	if len(f) != 6 {
		return l, false
	}
	var n [4]int64
	for i, text := range []string{f[0], f[1], f[2], f[4]} {
		var err error
		if n[i], err = strconv.ParseInt(text, 10, 64); err != nil || n[i] < 0 {
			return l, false
		}
	}
	if n[3] > int64(len(f[5])) {
		return l, false
	}
	l = LogLine{Attempt: int(n[0]), Number: int(n[1]), At: time.UnixMilli(n[2]).UTC(), Level: f[3], Text: f[5][:n[3]]}
	if attrs := f[5][n[3]:]; attrs != "" {
		l.Attrs = []byte(attrs)
	}
	if l.Level == GapLevel {
		lost, err := strconv.Atoi(l.Text)
		if err != nil {
			return l, false
		}
		l.Lost, l.Text = lost, ""
	}
	return l, true
}

// LogLevels are the levels of lines, the least first.
var LogLevels = []string{"DEBUG", "INFO", "WARN", "ERROR"}

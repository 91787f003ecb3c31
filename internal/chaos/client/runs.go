package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/job"
)

// note is one line of the handlers' file, as internal/handlers/chaos.go writes it.
type note struct {
	ID         job.ID `json:"id"`
	Key        string `json:"key"`
	Generation int    `json:"gen"`
	Attempt    int    `json:"attempt"`
	PID        int    `json:"pid"`
	Sum        string `json:"sum"`
	What       string `json:"what"` // start, end, fail, later
	Result     string `json:"result"`
	Why        string `json:"why"`
	At         int64  `json:"at"` // ns since 1970

	Batch *job.BatchCounts `json:"batch"`
}

type execution struct {
	id           job.ID
	attempt, pid int
}

// ReadRuns reads the handlers' file. It leaves out lines that a kill cut off.
func ReadRuns(path string) ([]check.Run, error) {
	var runs []check.Run
	open := map[execution][]int{} // started and not ended; two at once if Redis forgot the first and counted anew
	err := eachLine(path, func(text []byte) error {
		var n note
		if err := json.Unmarshal(text, &n); err != nil {
			// A process that was killed while it wrote left its line without an end, and the next line follows on it.
			whole := bytes.LastIndex(text, []byte(`{"id":`))
			if whole <= 0 || json.Unmarshal(text[whole:], &n) != nil {
				return err
			}
		}
		of, at := execution{n.ID, n.Attempt, n.PID}, time.Unix(0, n.At).UTC()
		switch n.What {
		case "start":
			open[of] = append(open[of], len(runs))
			runs = append(runs, check.Run{
				ID: n.ID, Key: n.Key, Generation: n.Generation, Attempt: n.Attempt, Worker: strconv.Itoa(n.PID), Sum: n.Sum,
				Began: at, Batch: n.Batch,
			})
		case "end", "fail", "later":
			if len(open[of]) == 0 {
				return fmt.Errorf("attempt %d of %s ended without a start", n.Attempt, n.ID)
			}
			i := open[of][0]
			open[of] = open[of][1:]
			runs[i].Ended, runs[i].Result, runs[i].Why = at, n.Result, n.Why
		default:
			return fmt.Errorf("a line about %q", n.What)
		}
		return nil
	})
	return runs, err
}

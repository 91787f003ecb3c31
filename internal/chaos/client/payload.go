// Package client is the load of a chaos run and the reader of what the run leaves behind. It knows the servers by
// their addresses only.
//
//	load.go       submitters and pollers, and what they decide; send.go sends one request and classifies the answer
//	history.go    the file of all requests, from which a run that was killed can still be judged; witness.go what else
//	              the clients saw
//	outsiders.go  workers of other programs, which claim jobs over HTTP; outside.go what they did and were told
//	faktory.go    workers that speak Faktory's protocol; faktoryconn.go their connections; faktorypush.go what is pushed
//	              over it, and what the evidence lacks of it
//	batches.go    batches with their members; batchlooks.go what clients see of them; batchrows.go what SQL has of them
//	              at rest
//	unique.go     submits with a unique key
//	schedules.go  operators who store, change and pause schedules; occurrences.go the rows of the occurrences
//	strangers.go  requests for a job with another caller's key; the receiver of callbacks
//	runs.go       the handlers' own file; sql.go, redis.go, metrics.go: what the stores and the servers have at rest
package client

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Payload is the payload of a CHAOS job. Its handler is in internal/handlers/chaos.go.
type Payload struct {
	Key     string `json:"key"`     // the job's name in the history and in the handlers' file
	File    string `json:"file"`    // the file to which each execution is written
	SleepMs int    `json:"sleepMs"` // works for so long, unless its context ends
	Fail    int    `json:"fail"`    // fails in its first Fail attempts
	Later   int    `json:"later"`   // gives itself back in its first Later attempts
	HangMs  int    `json:"hangMs"`  // works for so long and ignores its context
	Crash   int    `json:"crash"`   // kills its process in its first Crash attempts
	Pad     string `json:"pad"`     // makes the payload longer, nothing else
}

// readPayload reads the payload of a job, also of one that a Faktory client pushed: that is the first of its arguments.
// Where a payload was changed so that it cannot be read, its sum shows that.
func readPayload(text []byte) (p Payload) {
	var pushed struct{ Args []json.RawMessage }
	if json.Unmarshal(text, &pushed) == nil && len(pushed.Args) > 0 {
		text = pushed.Args[0]
	}
	_ = json.Unmarshal(text, &p)
	return p
}

// Sum returns the hash by which histories and handlers compare payloads and results.
func Sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

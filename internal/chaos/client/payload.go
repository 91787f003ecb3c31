// Package client is the load of a chaos run and the reader of what it leaves behind. It knows the server by its
// addresses only.
//
//	load.go     submitters, pollers, and what they decide; send.go sends one request and says what became of it
//	history.go  the file that keeps every request, so that a run that was killed can still be judged; witness.go what
//	            else was seen
//	strangers.go  who asks for another's job; who takes the callbacks
//	runs.go     the handlers' own file; sql.go, redis.go, metrics.go: what the stores and the servers hold at rest
package client

import (
	"crypto/sha256"
	"encoding/hex"
)

// Payload is what a CHAOS job is asked to do. The handler's side is in internal/handlers/chaos.go.
type Payload struct {
	Key     string `json:"key"`     // the job's name in the history and in the handlers' file
	File    string `json:"file"`    // where each execution is written down
	SleepMs int    `json:"sleepMs"` // works so long, unless its context ends
	Fail    int    `json:"fail"`    // fails in so many attempts, the first ones
	Later   int    `json:"later"`   // gives itself back in so many attempts, the first ones
	HangMs  int    `json:"hangMs"`  // works so long whatever its context says
	Crash   int    `json:"crash"`   // kills its process in so many attempts, the first ones
	Pad     string `json:"pad"`     // only makes the payload longer
}

// Sum is the hash that histories and handlers compare.
func Sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

package job

import (
	"fmt"
	"strings"
	"time"
)

// UniqueOn says what a submit does if another living job holds its unique key.
type UniqueOn string

// What a submit does.
const (
	UniqueReturn  UniqueOn = "return"  // it is answered with the holder
	UniqueRefuse  UniqueOn = "refuse"  // it is refused: TakenError
	UniqueReplace UniqueOn = "replace" // a holder that was never claimed gets its payload; else as after
	UniqueAfter   UniqueOn = "after"   // its job is HELD, and waits in its queue once the holder has ended
)

// UniqueWhile says how long a job holds its unique key.
type UniqueWhile string

// How long. Seconds are "s" and their number, counted from the job's arrival.
const (
	WhileWaiting UniqueWhile = "w" // until a worker claims it, and again while it waits for another attempt
	WhileLiving  UniqueWhile = "l" // until it has ended
)

// WhileSeconds returns the UniqueWhile of so many whole seconds.
func WhileSeconds(d time.Duration) UniqueWhile {
	return UniqueWhile(fmt.Sprintf("s%d", int64(d/time.Second)))
}

// Timed says whether the key is held for seconds.
func (w UniqueWhile) Timed() bool { return strings.HasPrefix(string(w), "s") }

// Unique returns the option of a class that gives a job a unique key: hash is 32 hexadecimal digits of owner and key.
func Unique(hash string, while UniqueWhile) string { return hash + "." + string(while) }

// UniqueHash returns the hash of the job's unique key; "" = it has none.
func (o Options) UniqueHash() string {
	hash, _, _ := strings.Cut(o.Unique, ".")
	return hash
}

// Home returns the hash that chooses the submit's partition: of the key of its line, or else of its unique key, or else
// of its Idempotency-Key; "" = it may go to any partition.
func (s *Submission) Home() string {
	if hash := homeOfLine(s.Line); hash != "" {
		return hash
	}
	if hash := s.UniqueHash(); hash != "" {
		return hash
	}
	return s.Idempotency.Key
}

// TakenError is an ErrTaken that names the job which holds the unique key.
type TakenError struct{ ID ID }

func (e *TakenError) Error() string { return "job " + string(e.ID) + " holds the unique key" }

// Unwrap makes errors.Is(err, ErrTaken) true.
func (e *TakenError) Unwrap() error { return ErrTaken }

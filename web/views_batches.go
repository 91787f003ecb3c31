package web

import "time"

// BatchRow is a batch in the list.
type BatchRow struct {
	ID        string
	Name      string
	State     string
	Round     int
	Total     int64
	Ended     int64 // members that have ended, however
	Failed    int64 // members that are FAILED
	CreatedAt time.Time
	EndedAt   time.Time // zero = a round is under way
}

// BatchesView is /batches: the batches that the caller may see, the latest first.
type BatchesView struct {
	Frame
	Batches []BatchRow
	More    string // address of older batches; "" = there are none
}

// BatchMember is a job of a batch that failed.
type BatchMember struct {
	ID      string
	EndedAt time.Time
}

// BatchView is /batches/<id>: one batch with its counts and the members that failed. Its forms seal and cancel it.
type BatchView struct {
	Frame
	BatchRow
	Completed, Cancelled, Expired, Living int64
	Percent                               int
	Then                                  string // the type of the job at the end; "" = none
	On                                    string
	ThenJobID                             string // "" until it is owed
	Asked                                 bool   // somebody asked to cancel it
	Members                               []BatchMember
	More                                  bool // more members failed
	CanSeal, CanCancel                    bool
}

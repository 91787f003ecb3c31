package job

// Reservation asks for a place for a job that SQL is about to have, and Redis only later. Of Options it uses Queue,
// Line and From.
type Reservation struct {
	ID         ID
	Tier       Tier
	Owner      string
	Generation int
	Options
	Bytes   int  // of the payload, or more
	Quota   int  // how many living jobs the owner may have; 0 = any number
	Waits   bool // it waits in SQL or has a delay: it counts as a job that was delayed at submit
	Started bool // it was claimed before: it counts as a living job only
	Batch   ID   // that owes it; "" = none
}

// Reserved is a place in Redis.
type Reserved struct {
	ID     ID
	Seen   string // the time, of Redis, at which it was reserved or asked for again; "" = any, "-" = long ago
	Batch  ID     // that owes the job; "" = none
	Ended  string // "id:generation" of the job whose end it tells, if the place is that of a callback; "" = it is not
	Needed bool   // SQL has the job, and Redis is to get it
}

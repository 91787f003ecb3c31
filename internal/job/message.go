package job

// Message is one entry of the operators' stream of events. ID is what to resume from; Resync says that events before
// this one were missed, so that the whole is to be read again; Bye is the last one, from a server that drains. Both
// come without an Event.
type Message struct {
	ID     string
	Event  Event
	Resync bool
	Bye    bool
}

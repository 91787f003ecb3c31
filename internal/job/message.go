package job

// Message is one entry of the operators' stream of events. ID is the position to resume from. Resync says that
// earlier events were missed, so that the reader must read everything again. Bye is the last message of a server
// that drains. Resync and Bye come without an Event.
type Message struct {
	ID     string
	Event  Event
	Resync bool
	Bye    bool
}

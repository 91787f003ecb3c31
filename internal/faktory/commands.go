package faktory

import (
	"context"
)

// command is what a verb does. run writes the reply; an error ends the connection.
type command struct {
	run  func(c *conn, ctx context.Context, rest []byte) error //nolint:revive // the connection is the receiver
	free bool                                                  // it costs nothing of the caller's rate
}

// commands are the verbs. A verb is written in capitals.
var commands map[string]command

func init() { //nolint:gochecknoinits // the commands use the table's types
	commands = map[string]command{
		"PUSH":   {run: (*conn).push},
		"PUSHB":  {run: (*conn).pushAll, free: true}, // it pays for each job
		"FETCH":  {run: (*conn).fetch},
		"ACK":    {run: (*conn).ack, free: true},
		"FAIL":   {run: (*conn).failed, free: true},
		"BEAT":   {run: (*conn).beat, free: true},
		"INFO":   {run: (*conn).info},
		"QUEUE":  {run: (*conn).queue},
		"FLUSH":  {run: (*conn).flush},
		"MUTATE": {run: (*conn).mutate},
		"END":    {run: (*conn).end, free: true},
		"BATCH":  {run: onlyThere("batch")},
		"TRACK":  {run: onlyThere("tracking")},
	}
}

// end ends the connection. The server of Faktory writes no reply.
func (c *conn) end(context.Context, []byte) error {
	c.ended = true
	return nil
}

// onlyThere refuses a command of Faktory Enterprise, in that server's words.
func onlyThere(subsystem string) func(*conn, context.Context, []byte) error {
	return func(c *conn, _ context.Context, _ []byte) error {
		return c.fail(subsystem + " subsystem is only available in Faktory Enterprise")
	}
}

package testkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/net/websocket"
)

// bidi is a connection to a browser that speaks WebDriver BiDi: commands with answers, and events between them.
type bidi struct {
	conn *websocket.Conn
	hear func(method string, params json.RawMessage) // called for every event, in order

	mu      sync.Mutex
	last    int
	waiting map[int]chan bidiMessage
	gone    error         // the error that ended the connection
	ended   chan struct{} // closed when the reader has ended
}

// bidiMessage is a message of the browser: an answer, which has an ID, or an event, which has a method.
type bidiMessage struct {
	ID      int             `json:"id"`
	Type    string          `json:"type"` // success, error, event
	Result  json.RawMessage `json:"result"`
	Error   string          `json:"error"`
	Message string          `json:"message"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

// dialBidi connects to ws://127.0.0.1:port. The browser must have been started to allow this origin.
func dialBidi(
	ctx context.Context, address, origin string, hear func(method string, params json.RawMessage),
) (*bidi, error) {
	config, err := websocket.NewConfig(address+"/session", origin)
	if err != nil {
		return nil, err
	}
	conn, err := config.DialContext(ctx)
	if err != nil {
		return nil, err
	}
	conn.MaxPayloadBytes = 256 << 20 // a screenshot of a long page is one message
	b := &bidi{conn: conn, hear: hear, waiting: map[int]chan bidiMessage{}, ended: make(chan struct{})}
	go b.read()
	return b, nil
}

func (b *bidi) read() {
	defer close(b.ended)
	for {
		var m bidiMessage
		if err := websocket.JSON.Receive(b.conn, &m); err != nil {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.gone = fmt.Errorf("the browser has left: %w", err)
			for id, answer := range b.waiting {
				delete(b.waiting, id)
				close(answer)
			}
			return
		}
		if m.Type == "event" {
			b.hear(m.Method, m.Params)
			continue
		}
		b.mu.Lock()
		answer := b.waiting[m.ID]
		delete(b.waiting, m.ID)
		b.mu.Unlock()
		if answer != nil { // otherwise the caller has given up
			answer <- m
		}
	}
}

// call sends a command and decodes its answer into what into points at. A nil into drops the answer.
func (b *bidi) call(ctx context.Context, method string, params, into any) error {
	answer := make(chan bidiMessage, 1)
	b.mu.Lock()
	if b.gone != nil {
		b.mu.Unlock()
		return b.gone
	}
	b.last++
	id := b.last
	b.waiting[id] = answer
	err := websocket.JSON.Send(b.conn, map[string]any{"id": id, "method": method, "params": params})
	b.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case m, ok := <-answer:
		switch {
		case !ok:
			return fmt.Errorf("%s: %w", method, b.gone)
		case m.Type != "success":
			return fmt.Errorf("%s: %s: %s", method, m.Error, m.Message)
		case into == nil:
			return nil
		}
		return json.Unmarshal(m.Result, into)
	case <-ctx.Done():
		b.mu.Lock()
		delete(b.waiting, id)
		b.mu.Unlock()
		return fmt.Errorf("%s: %w", method, errors.Join(ctx.Err(), errNoAnswer))
	}
}

var errNoAnswer = errors.New("the browser does not answer")

// close returns when the connection is closed and its reader has ended. A second call does nothing.
func (b *bidi) close() {
	_ = b.conn.Close()
	<-b.ended
}

package app

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/tierq/tierq/internal/pages"
	"github.com/tierq/tierq/internal/sandbox"
	"github.com/tierq/tierq/web"
)

// walkthrough serves /demo with the boxes of the sandbox.
type walkthrough struct{ boxes *sandbox.Manager }

func (w walkthrough) Play(ctx context.Context, session, scenario string) error {
	err := w.boxes.Play(ctx, session, scenario)
	switch {
	case errors.Is(err, sandbox.ErrUnknown):
		return pages.ErrNoScenario
	case errors.Is(err, sandbox.ErrTooSoon):
		return pages.ErrTooSoon
	case errors.Is(err, sandbox.ErrFull), errors.Is(err, sandbox.ErrStopped):
		return pages.ErrNoRoom
	}
	return err
}

func (w walkthrough) Events(session string, after int64) (told []pages.Told, more <-chan struct{}, closed bool) {
	events, more, closed := w.boxes.Events(session, after)
	for i := range events {
		text, _ := json.Marshal(&events[i]) // texts, numbers and times cannot fail
		told = append(told, pages.Told{ID: events[i].ID, Text: text})
	}
	return told, more, closed
}

func (walkthrough) Scenarios() []web.Scenario {
	var all []web.Scenario
	for _, s := range sandbox.Scenarios() {
		all = append(all, web.Scenario{ID: s.ID, Title: s.Title, About: s.Shows})
	}
	return all
}

func (walkthrough) Stage() (slots, capacity int) { return sandbox.Slots, sandbox.Limit }

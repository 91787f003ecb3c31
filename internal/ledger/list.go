package ledger

import (
	"context"
	"encoding/base64"
	"strings"

	"github.com/tierq/tierq/internal/job"
)

// A cursor names the source that comes next and the place in it: "1l:<Redis' cursor>", "1w:<the cursor of jobs that
// wait in flows>" or "1a:<SQL's cursor>" in base64url. 1 is the version.
const (
	inLive    = "1l:"
	inWaiting = "1w:"
	inArchive = "1a:"
	maxCursor = 512
)

func cursorOf(source, place string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(source + place))
}

// readCursor splits a cursor into source and place. Only SQL's places may be empty: they begin where the living jobs
// end.
func readCursor(cursor string) (source, place string, err error) {
	if cursor == "" {
		return inLive, "", nil
	}
	if len(cursor) > maxCursor {
		return "", "", job.ErrBadCursor
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || strings.ContainsAny(cursor, "\r\n") { // the decoder ignores line ends
		return "", "", job.ErrBadCursor
	}
	for _, source := range []string{inArchive, inWaiting} {
		if place, ok := strings.CutPrefix(string(text), source); ok {
			return source, place, nil
		}
	}
	if place, ok := strings.CutPrefix(string(text), inLive); ok && place != "" {
		return inLive, place, nil
	}
	return "", "", job.ErrBadCursor
}

// List reads the jobs that a filter takes, without payloads and results: first the living jobs, with ended jobs
// that are not yet in SQL, then those that wait in flows, then the archived ones. A page may hold fewer than limit jobs
// and still have a next; next is "" at the end. A job that ends while the list is read may appear twice. List returns
// job.ErrBadCursor for a cursor of another list.
func (l *Ledger) List(ctx context.Context, f job.Filter, cursor string, limit int) (items []job.Job, next string,
	err error) {
	source, place, err := readCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	if f.Status == job.Waiting && l.Options.Flows != nil && source == inLive {
		source = inWaiting
	}
	for {
		some, next, err := l.stage(ctx, source, f, place, limit-len(items))
		switch {
		case err != nil && len(items) > 0:
			return items, cursorOf(source, place), nil // the next page returns the error
		case err != nil:
			return nil, "", err
		case next != "":
			return append(items, some...), cursorOf(source, next), nil
		}
		items = append(items, some...)
		if source, place = l.behind(source, f.Status), ""; source == "" {
			return items, "", nil
		}
		if len(items) >= limit {
			return items, cursorOf(source, ""), nil
		}
	}
}

// stage reads a page of one source.
func (l *Ledger) stage(ctx context.Context, source string, f job.Filter, place string, limit int) (
	items []job.Job, next string, err error) {
	switch source {
	case inLive:
		items, next, err = page(ctx, l.Live.List, f, place, limit)
		if l.Outbox != nil {
			items = l.onlyStored(ctx, f, items)
		}
		return items, next, err
	case inWaiting:
		if l.Options.Flows == nil {
			return nil, "", nil
		}
		return page(ctx, l.Options.Flows.WaitingJobs, f, place, limit)
	}
	return page(ctx, l.Archive.List, f, place, limit)
}

// behind returns the source that has the next jobs of a status ("" = any); "" if there is none.
func (l *Ledger) behind(source string, status job.Status) string {
	switch {
	case source == inLive && status == "" && l.Options.Flows != nil:
		return inWaiting
	case source != inArchive && (status == "" || status.Ended()):
		return inArchive
	}
	return ""
}

func page(
	ctx context.Context,
	list func(context.Context, job.Filter, string, int) ([]job.Job, string, error),
	f job.Filter, cursor string, limit int,
) ([]job.Job, string, error) {
	ctx, cancel := context.WithTimeout(ctx, listPatience)
	defer cancel()
	return list(ctx, f, cursor, limit)
}

// Dead reads a page of the open dead letters, the newest first, without payloads.
func (l *Ledger) Dead(ctx context.Context, f job.Filter, cursor string, limit int) ([]job.DeadLetter, string, error) {
	ctx, cancel := context.WithTimeout(ctx, listPatience)
	defer cancel()
	return l.DeadLetters.Dead(ctx, f, cursor, limit)
}

// DeadPage reads a page by its number, from 0, and returns how many open dead letters there are in all.
func (l *Ledger) DeadPage(ctx context.Context, f job.Filter, page, size int) ([]job.DeadLetter, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, listPatience)
	defer cancel()
	return l.DeadLetters.DeadPage(ctx, f, page, size)
}

// EachDead calls each with every open dead letter that a filter takes, with its payload. Only ctx and each bound
// its time.
func (l *Ledger) EachDead(ctx context.Context, f job.Filter, each func(job.DeadLetter) error) error {
	return l.DeadLetters.EachDead(ctx, f, each)
}

package ledger

import (
	"context"
	"encoding/base64"
	"strings"

	"github.com/tierq/tierq/internal/job"
)

// A cursor names the store that comes next and the place in it: "1l:<Redis' cursor>" or "1a:<SQL's cursor>" in
// base64url. 1 is the version.
const (
	inLive    = "1l:"
	inArchive = "1a:"
	maxCursor = 512
)

func cursorOf(source, place string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(source + place))
}

// readCursor splits a cursor into store and place. Only SQL's place may be empty: it begins where the living jobs
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
	if place, ok := strings.CutPrefix(string(text), inArchive); ok {
		return inArchive, place, nil
	}
	if place, ok := strings.CutPrefix(string(text), inLive); ok && place != "" {
		return inLive, place, nil
	}
	return "", "", job.ErrBadCursor
}

// List reads the jobs that a filter takes, without payloads and results: first the living jobs, with ended jobs
// that are not yet in SQL, then the archived ones. A page may hold fewer than limit jobs and still have a next;
// next is "" at the end. A job that ends while the list is read may appear twice. List returns job.ErrBadCursor
// for a cursor of another list.
func (l *Ledger) List(ctx context.Context, f job.Filter, cursor string, limit int) (items []job.Job, next string,
	err error) {
	source, place, err := readCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	if source == inLive {
		items, next, err = page(ctx, l.Live, f, place, limit)
		if l.Outbox != nil {
			items = l.onlyStored(ctx, f, items)
		}
		switch {
		case err != nil:
			return nil, "", err
		case next != "":
			return items, cursorOf(inLive, next), nil
		case f.Status != "" && !f.Status.Ended():
			return items, "", nil // SQL has none of these
		case len(items) >= limit:
			return items, cursorOf(inArchive, ""), nil
		}
		place = ""
	}
	archived, next, err := page(ctx, l.Archive, f, place, limit-len(items))
	switch {
	case err != nil && len(items) > 0:
		return items, cursorOf(inArchive, ""), nil // the next page returns the error
	case err != nil:
		return nil, "", err
	case next != "":
		next = cursorOf(inArchive, next)
	}
	return append(items, archived...), next, nil
}

func page(ctx context.Context, s Store, f job.Filter, cursor string, limit int) ([]job.Job, string, error) {
	ctx, cancel := context.WithTimeout(ctx, listPatience)
	defer cancel()
	return s.List(ctx, f, cursor, limit)
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

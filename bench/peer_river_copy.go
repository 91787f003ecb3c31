package main

import (
	"context"
	"fmt"
	"time"
)

const riverCopies = "River, COPY"

// riverCopyPeer is River's other way to send many: its InsertManyFast copies them into the table and tells nothing of
// each. It has no other figures, and shares River's PostgreSQL.
type riverCopyPeer struct {
	river *riverPeer
}

func newRiverCopy() contender { return &riverCopyPeer{} }

func (r *riverCopyPeer) name() string { return riverCopies }

func (r *riverCopyPeer) open(_ context.Context, l *lab) (string, error) {
	if l.field != nil {
		for _, c := range l.field.in {
			if river, ok := c.(*riverPeer); ok {
				r.river = river
				return fmt.Sprintf("the same, InsertManyFast %d x %d", riverLanes, riverBatch), nil
			}
		}
	}
	return "", fmt.Errorf("%w: it needs River", errLeftOut)
}

// close leaves the PostgreSQL to River.
func (r *riverCopyPeer) close() error { return nil }

func (r *riverCopyPeer) reset(ctx context.Context) error { return r.river.reset(ctx) }

func (r *riverCopyPeer) bulk(ctx context.Context, n int) (time.Duration, error) {
	return r.river.fast(ctx, n)
}

func (r *riverCopyPeer) enqueue(context.Context, int, int) (time.Duration, error) {
	return 0, errNone
}

func (r *riverCopyPeer) drain(context.Context, int) (drained, error) { return drained{}, errNone }

func (r *riverCopyPeer) pickup(context.Context, int, int) ([]time.Duration, error) {
	return nil, errNone
}

func (r *riverCopyPeer) queuedBytes(context.Context, int) (float64, error) { return 0, errNone }

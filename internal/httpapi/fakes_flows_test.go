package httpapi

import (
	"context"
	"fmt"

	"github.com/tierq/tierq/internal/job"
)

// flowBook fakes the room of flows, and records its calls.
type flowBook struct {
	flows  []job.Flow
	first  *job.Flow // of each submit
	inputs []job.FlowInput
	next   string
	err    error
	hangs  bool // a list waits for the end of its context

	offered  []job.Flow
	contents [][]string
	asked    []string
}

func (b *flowBook) SubmitFlow(_ context.Context, f *job.Flow, quota int, contents []string) (*job.Flow, error) {
	f.ID = knownID
	for i := range f.Jobs {
		f.Jobs[i].ID = job.FlowJobID(f.ID, f.Jobs[i].Name, 0)
	}
	b.offered, b.contents = append(b.offered, *f), append(b.contents, contents)
	b.asked = append(b.asked, fmt.Sprintf("submit with quota %d", quota))
	return b.first, b.err
}

func (b *flowBook) AddToFlow(_ context.Context, key, lease string, f *job.Flow, contents []string) error {
	b.offered, b.contents = append(b.offered, *f), append(b.contents, contents)
	b.asked = append(b.asked, "add by "+lease+" of "+key)
	return b.err
}

func (b *flowBook) Flow(_ context.Context, id job.ID) (job.Flow, error) {
	for _, f := range b.flows {
		if f.ID == id && b.err == nil {
			return f, nil
		}
	}
	if b.err != nil {
		return job.Flow{}, b.err
	}
	return job.Flow{}, job.ErrFlowNotFound
}

func (b *flowBook) Flows(ctx context.Context, f job.FlowFilter, cursor string, limit int) ([]job.Flow, string, error) {
	owner := "all"
	if f.Owner != nil {
		owner = *f.Owner
	}
	if b.hangs {
		<-ctx.Done()
		return nil, "", ctx.Err()
	}
	b.asked = append(b.asked, fmt.Sprintf("list of %s %s %s from %q at most %d", owner, f.State, f.JobID, cursor, limit))
	return b.flows, b.next, b.err
}

func (b *flowBook) CancelFlow(_ context.Context, id job.ID, reason string) error {
	b.asked = append(b.asked, fmt.Sprintf("cancel %s because %q", id, reason))
	return b.err
}

func (b *flowBook) FlowInputs(_ context.Context, key, lease, name string) ([]job.FlowInput, error) {
	b.asked = append(b.asked, fmt.Sprintf("inputs of %s of %s, %q", lease, key, name))
	return b.inputs, b.err
}

package recovery

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/tierq/tierq/internal/job"
)

// batchChecks has one finding on its second page.
type batchChecks struct {
	asked []job.ID
	err   error
}

func (b *batchChecks) CheckBatches(ctx context.Context, after job.ID,
	missing func(context.Context, []job.ID) ([]job.ID, error)) ([]job.Finding, job.ID, error) {
	b.asked = append(b.asked, after)
	if after == "" {
		return nil, "first", b.err
	}
	gone, err := missing(ctx, []job.ID{"a member"})
	if err != nil || len(gone) != 1 {
		return nil, "", errors.Join(err, errors.New("Redis was not asked"))
	}
	return []job.Finding{{Partition: -1, Result: job.Repaired, Kind: "batch"}}, "", nil
}

// A pass checks all batches. Without SQL it goes on, and its report says so.
func TestAuditChecksBatches(t *testing.T) {
	t.Parallel()
	a, b := newAudited(), &batchChecks{}
	a.missing = []job.ID{"a member"}
	audit := a.audit()
	audit.o.Batches = b
	r, err := audit.Run(t.Context())
	if err != nil || !r.Whole || !slices.Equal(b.asked, []job.ID{"", "first"}) || len(r.Findings) != 1 ||
		r.Findings[0].Kind != "batch" {
		t.Errorf("asked %q: %+v, %v", b.asked, r, err)
	}
	b.err = job.ErrUnavailable
	if r, err = audit.Run(t.Context()); err != nil || r.Whole || r.Problem == "" {
		t.Errorf("without SQL: %+v, %v", r, err)
	}
}

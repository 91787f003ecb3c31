package admission

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tierq/tierq/internal/job"
)

// All submits with one key go to one partition, alone or in a batch; submits without a key go to the partitions in
// turn.
func TestKey_ChoosesThePartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &fakeQueue{}
		a, _ := begin(t, q, 5)
		for key, want := range map[string]int{"0000ffff": 0, "0001ffff": 1, "00ff0000": 255 % 5, "fffe0000": 65534 % 5,
			"zz": 0} {
			once := job.Submission{Tier: job.Paid, Idempotency: job.Idempotency{Key: key, Body: "b"}}
			accepted, err := a.Submit(t.Context(), once)
			if err != nil || accepted.ID.Partition() != want {
				t.Errorf("%s: %v, %v, want partition %d", key, accepted, err, want)
			}
			batch := append(ofTier(job.Paid, 4), once)
			if r := a.SubmitBatch(t.Context(), batch)[4]; r.Err != nil || r.ID.Partition() != want {
				t.Errorf("%s in a batch: %+v, want partition %d", key, r, want)
			}
		}
		for _, call := range q.sent() {
			if s := call[len(call)-1]; s.Idempotency.Key != "" && s.Idempotency.Body != "b" {
				t.Errorf("sent %+v", s)
			}
		}
	})
}

// All other fields of a submission reach the queue unchanged.
func TestSubmit_PassesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &fakeQueue{}
		a, _ := begin(t, q, 1)
		want := job.Submission{
			Tier: job.Paid, Type: "SIMULATION", Payload: []byte("{}"), MaxRetries: 1, Delay: time.Minute,
			RunAt: time.Now().Add(time.Hour), Owner: "o", Quota: 7,
			TraceID: "t", Options: job.Options{CallbackURL: "https://example.com", SpanID: "s"},
		}
		accepted, err := a.Submit(t.Context(), want)
		if err != nil {
			t.Fatal(err)
		}
		got := q.sent()[0][0]
		want.ID = accepted.ID
		if string(got.Payload) != "{}" || got.Delay != want.Delay || !got.RunAt.Equal(want.RunAt) ||
			got.Options != want.Options ||
			got.ID != want.ID || got.Owner != "o" || got.Quota != 7 || got.TraceID != "t" || got.MaxRetries != 1 {
			t.Errorf("sent %+v, want %+v", got, want)
		}
	})
}

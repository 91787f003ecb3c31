package faktory

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/tierq/tierq/internal/job"
)

// mostPushed is how many jobs one PUSHB may have.
const mostPushed = 1000

// push serves PUSH: the job is accepted once Redis has it.
func (c *conn) push(ctx context.Context, text []byte) error {
	s, err := c.submission(ctx, text)
	if err == nil {
		_, err = c.server.Submit.Submit(ctx, s)
	}
	if err != nil {
		return c.refuse(err)
	}
	return c.ok()
}

// pushAll serves PUSHB. The reply has the reason of each job that was refused, by the job's jid.
func (c *conn) pushAll(ctx context.Context, text []byte) error {
	if deep(text) {
		return c.fail("invalid JSON: it is nested too deep")
	}
	var texts []json.RawMessage
	if err := json.Unmarshal(text, &texts); err != nil {
		return c.fail("invalid JSON: " + err.Error())
	}
	if len(texts) > mostPushed {
		return c.fail("too many jobs: at most " + strconv.Itoa(mostPushed))
	}
	if err := c.spend(ctx, max(len(texts), 1)); err != nil {
		return c.refuse(err)
	}
	reasons := map[string]string{}
	refuse := func(jid string, err error) {
		if reasons[jid] = reasonOf(err); reasons[jid] == "" {
			c.server.Log.Error("a job of a Faktory client failed", "err", err)
			reasons[jid] = "internal error"
		}
	}
	batch, jids := make([]job.Submission, 0, len(texts)), make([]string, 0, len(texts))
	for _, one := range texts {
		var named struct {
			Jid any `json:"jid"`
		}
		_ = json.Unmarshal(one, &named) // submission says what is wrong with it
		jid, _ := named.Jid.(string)
		s, err := c.submission(ctx, one)
		if err != nil {
			refuse(jid, err)
			continue
		}
		batch, jids = append(batch, s), append(jids, jid)
	}
	if len(batch) > 0 {
		_, errs := c.server.Submit.SubmitBatch(ctx, batch)
		for i, err := range errs {
			if err != nil {
				refuse(jids[i], err)
			}
		}
	}
	answer, err := json.Marshal(reasons)
	if err != nil {
		return c.refuse(err)
	}
	return c.result(answer)
}

// submission checks a pushed job, and returns its submission.
func (c *conn) submission(ctx context.Context, text []byte) (s job.Submission, err error) {
	if len(text) > c.server.PayloadLimit {
		return s, refusal("job is too large: at most " + strconv.Itoa(c.server.PayloadLimit) + " bytes")
	}
	p, err := readJob(text)
	if err != nil {
		return s, err
	}
	tier, err := c.server.tierOf(p.tier(), p.Queue)
	if err != nil {
		return s, err
	}
	if s.RunAt, err = p.runAt(c.server.Clock()); err != nil {
		return s, err
	}
	if err := c.mayPush(ctx, p.Queue, tier, p.Type); err != nil {
		return s, err
	}
	plan, _ := c.server.Plans.Plan(tier)
	s.Tier, s.Type, s.MaxRetries = tier, p.Type, p.retries(plan)
	s.Payload = append([]byte(nil), text...) // the line is read into the same memory as the next
	s.Owner, s.Quota, s.From = c.caller.Owner(), c.caller.Key.InFlight, c.caller.From
	s.Queue, s.MaxRunMs = p.Queue, p.reserve().Milliseconds()
	return s, c.checkQueue(&s)
}

// checkQueue holds a job against what its queue takes.
func (c *conn) checkQueue(s *job.Submission) error {
	queue, known := c.server.Queues.Find(s.Queue)
	if !known {
		return nil // it was declared just now
	}
	if !queue.Takes(s.Type) {
		return refusal("the queue " + s.Queue + " takes no jobs of this jobtype")
	}
	schema, has := queue.Schemas[s.Type]
	if !has {
		return nil
	}
	if err := c.server.Schemas.Check(schema, s.Payload); err != nil {
		if wrong, ok := errors.AsType[*job.PayloadError](err); ok {
			return refusal("the job does not fit the schema of its queue: " + wrong.Error())
		}
		return err
	}
	return nil
}

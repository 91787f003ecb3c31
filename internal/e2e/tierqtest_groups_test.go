package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	sdk "github.com/tierq/tierq/client"
)

// The fake server answers about batches and flows as a server does.
func TestFakeAnswersAsAServer_Groups(t *testing.T) {
	t.Parallel()
	tellBoth(t, func(t *testing.T, c *sdk.Client, e ends) []string {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		g := &groupsStory{t: t, ctx: ctx, c: c, e: e}
		g.batches()
		g.flows()
		return g.lines
	})
}

// groupsStory is a story of batches and flows. It has one line for each answer that the client got.
type groupsStory struct {
	t     *testing.T
	ctx   context.Context //nolint:containedctx // of one test
	c     *sdk.Client
	e     ends
	lines []string
}

func (g *groupsStory) say(what string, v any, err error) {
	text := fmt.Sprintf("%s: %+v", what, v)
	if refused, ok := errors.AsType[*sdk.Error](err); ok {
		text = fmt.Sprintf("%s: %d %s", what, refused.Status, refused.Code)
	} else if err != nil {
		text += fmt.Sprintf(" %T", errors.Unwrap(err))
	}
	g.lines = append(g.lines, text)
}

// row submits a member of a batch.
func (g *groupsStory) row(what, batch string, more ...sdk.SubmitOption) string {
	s := sdk.Submission{Type: "RESIZE", Queue: "pictures", BatchID: batch}
	for _, set := range more {
		set(&s)
	}
	a, err := g.c.SubmitJob(g.ctx, sdk.Paid, s)
	g.say(what, []any{a.Status, a.Replayed}, err)
	return a.JobID
}

func (g *groupsStory) run(id string, end func(id string)) {
	g.e.begin(id)
	end(id)
}

func (g *groupsStory) complete(id string) { g.e.complete(id, "done") }
func (g *groupsStory) fail(id string)     { g.e.fail(id, errors.New("boom")) }

// shown has the values of a batch that both servers show.
func (g *groupsStory) shown(b sdk.Batch) any {
	return []any{b.Name, b.Tier, b.State, b.Round, b.Sealed, b.Total, b.Living, b.Completed, b.Failed, b.Cancelled,
		b.Expired, b.Progress, b.ThenJobID != "", b.CreatedAt.IsZero(), b.EndedAt.IsZero(), b.CancelledAt.IsZero()}
}

// looks reads a batch until its counts add up: a server counts an end when it is in SQL.
func (g *groupsStory) looks(what, id string, living int64) sdk.Batch {
	for {
		b, err := g.c.Batch(g.ctx, id)
		if err != nil || b.Living == living {
			g.say(what, g.shown(b), err)
			return b
		}
		<-time.After(10 * time.Millisecond)
	}
}

// wait waits for a batch.
func (g *groupsStory) wait(what, id string) sdk.Batch {
	b, err := g.c.WaitBatch(g.ctx, id)
	g.say(what, g.shown(b), err)
	return b
}

func (g *groupsStory) batches() {
	zero := 0
	then := &sdk.Then{Type: "RESIZE", Queue: "pictures", Payload: map[string]int{"n": 1}, MaxRetries: &zero}
	asked := sdk.NewBatch{Name: "b", Tier: sdk.Paid, Then: then, IdempotencyKey: "k"}
	b, err := g.c.CreateBatch(g.ctx, asked)
	g.say("a new batch", g.shown(b), err)
	again, err := g.c.CreateBatch(g.ctx, asked)
	g.say("a repeat", again.BatchID == b.BatchID, err)
	asked.Name = "c"
	_, err = g.c.CreateBatch(g.ctx, asked)
	g.say("another body", nil, err)
	for _, wrong := range []sdk.NewBatch{
		{}, {Name: "b", Then: &sdk.Then{Type: "RESIEZ"}}, {Name: "b", Then: &sdk.Then{}},
		{Name: "b", Then: &sdk.Then{Type: "RESIZE", On: "never"}},
	} {
		_, err := g.c.CreateBatch(g.ctx, wrong)
		g.say("a wrong batch", nil, err)
	}
	first := g.row("a member", b.BatchID, sdk.IdempotencyKey("row"))
	if again := g.row("the same member", b.BatchID, sdk.IdempotencyKey("row")); again != first {
		g.t.Errorf("a repeat made %s, not %s", again, first)
	}
	g.run(first, g.complete)
	g.looks("an open batch", b.BatchID, 0)
	second := g.row("a second member", b.BatchID, sdk.MaxRetries(0))
	third := g.row("a third member", b.BatchID)
	b, err = g.c.SealBatch(g.ctx, b.BatchID)
	g.say("a sealed batch", []any{b.State, b.Sealed, b.Total, b.ThenJobID}, err)
	g.row("a late member", b.BatchID)
	g.row("a repeat of a member", b.BatchID, sdk.IdempotencyKey("row"))
	g.run(second, g.fail)
	g.looks("a failed member", b.BatchID, 1)
	_, err = g.c.Cancel(g.ctx, third)
	g.say("a cancel of a member", nil, err)
	b = g.wait("a finished batch", b.BatchID)
	g.e.begin(b.ThenJobID)
	g.complete(b.ThenJobID)
	p, err := g.c.Wait(g.ctx, b.ThenJobID)
	g.say("its then job", []any{p.Status, p.Tier, p.Type, p.MaxRetries, string(p.Result)}, err)
	b, err = g.c.SealBatch(g.ctx, b.BatchID)
	g.say("sealed again", g.shown(b), err)
	for _, status := range []string{"", "LIVING", "FAILED", "CANCELLED"} {
		page, err := g.c.BatchMembers(g.ctx, b.BatchID, status, "", 10)
		var all []string
		for _, m := range page.Items {
			all = append(all, fmt.Sprint(m.Status, m.Generation, m.EndedAt.IsZero()))
		}
		slices.Sort(all)
		g.say("members "+status, []any{all, page.Next}, err)
	}
	g.stuckBatches(then)
	_, err = g.c.Batch(g.ctx, "019de340-01fe-7a58-be69-ffffffffffff")
	g.say("an unknown batch", nil, err)
	g.row("a member of none", "019de340-01fe-7a58-be69-ffffffffffff")
}

// stuckBatches tells of batches that are cancelled, empty or STUCK, and of the list.
func (g *groupsStory) stuckBatches(then *sdk.Then) {
	cancelled, err := g.c.CreateBatch(g.ctx, sdk.NewBatch{Name: "cancelled"})
	g.say("a batch without an end", g.shown(cancelled), err)
	g.row("a member that waits", cancelled.BatchID, sdk.Delay(time.Hour))
	done, err := g.c.CancelBatch(g.ctx, cancelled.BatchID)
	g.say("a cancel", []any{done.Cancelled, done.Asked}, err)
	g.wait("a cancelled batch", cancelled.BatchID)
	g.row("a late member", cancelled.BatchID)

	only := *then
	only.On = sdk.ThenSucceeded
	stuck, err := g.c.CreateBatch(g.ctx, sdk.NewBatch{Name: "stuck", Then: &only})
	g.say("a batch that has to succeed", g.shown(stuck), err)
	runs := g.row("its member", stuck.BatchID)
	g.e.begin(runs)
	done, err = g.c.CancelBatch(g.ctx, stuck.BatchID)
	g.say("a cancel of a member that runs", []any{done.Cancelled, done.Asked}, err)
	g.complete(runs)
	g.wait("a stuck batch", stuck.BatchID)

	rows := []sdk.BatchJob{{Submission: sdk.Submission{Type: "RESIZE", Queue: "pictures"}}, {Tier: sdk.Paid,
		Submission: sdk.Submission{Type: "RESIZE", Queue: "pictures", Delay: time.Hour}}}
	whole := sdk.NewBatch{Name: "whole", Tier: sdk.Public, Sealed: true, Jobs: rows, IdempotencyKey: "whole"}
	one, err := g.c.CreateBatch(g.ctx, whole)
	g.say("a batch in one call", []any{g.shown(one), len(one.Jobs)}, err)
	again, err := g.c.CreateBatch(g.ctx, whole)
	g.say("a repeat", slices.Equal(one.Jobs, again.Jobs), err)
	for i, id := range one.Jobs {
		p, err := g.c.Poll(g.ctx, id)
		g.say(fmt.Sprint("its member ", i), []any{p.Status, p.Tier, p.Type}, err)
	}
	whole.IdempotencyKey, whole.Jobs[1].Type = "", "RESIEZ"
	_, err = g.c.CreateBatch(g.ctx, whole)
	g.say("a wrong member", nil, err)
	done, err = g.c.CancelBatch(g.ctx, one.BatchID)
	g.say("a cancel", []any{done.Cancelled, done.Asked}, err)
	g.wait("a cancelled batch", one.BatchID)

	empty, err := g.c.CreateBatch(g.ctx, sdk.NewBatch{Name: "empty"})
	g.say("another batch", g.shown(empty), err)
	_, err = g.c.SealBatch(g.ctx, empty.BatchID)
	g.say("a seal", nil, err)
	g.wait("an empty batch", empty.BatchID)
	for cursor, more := "", true; more; more = cursor != "" {
		page, err := g.c.Batches(g.ctx, cursor, 3)
		for _, b := range page.Items {
			g.say("listed", g.shown(b), err)
		}
		cursor = page.Next
		g.say("another page", cursor != "", err)
	}
}

// flow submits a flow.
func (g *groupsStory) flow(what string, f sdk.NewFlow) sdk.FlowAccepted {
	got, err := g.c.SubmitFlow(g.ctx, f)
	g.say(what, []any{len(got.Jobs), got.Replayed}, err)
	return got
}

// stands reads a flow until its counts say how many jobs are WAITING and living.
func (g *groupsStory) stands(what string, f sdk.FlowAccepted, waiting, living int) {
	for {
		got, err := g.c.Flow(g.ctx, f.FlowID)
		if err == nil && (got.Counts.Waiting != waiting || got.Counts.Living != living) {
			<-time.After(10 * time.Millisecond)
			continue
		}
		var jobs []string
		for _, j := range got.Jobs {
			if j.Status == sdk.Processing {
				j.Status = sdk.Pending // a worker gets jobs that are released at the same time in any order
			}
			jobs = append(jobs, fmt.Sprint([]any{j.Name, j.Status, j.Tier, j.Type, j.Queue, j.Generation, j.After, j.OnFailure,
				j.FailureCause}))
		}
		slices.Sort(jobs)
		counts, _ := json.Marshal(got.Counts)
		g.say(what, []any{got.Name, got.State, got.CancelRequested, string(counts), jobs, got.EndedAt.IsZero()}, err)
		return
	}
}

// flowStep is a job of a flow.
func flowStep(on sdk.OnFailure, after ...string) sdk.FlowJob {
	zero := 0
	return sdk.FlowJob{Submission: sdk.Submission{Type: "RESIZE", Queue: "pictures", MaxRetries: &zero}, Tier: sdk.Paid,
		After: after, OnFailure: on}
}

func (g *groupsStory) flows() {
	f := sdk.NewFlow{Name: "f", IdempotencyKey: "k", Jobs: map[string]sdk.FlowJob{
		"a": flowStep(""), "b": flowStep("", "a"), "c": flowStep("", "a", "b"), "b/1": flowStep("", "a"),
		"d": flowStep("", "b/*"),
	}}
	got := g.flow("a flow", f)
	if again := g.flow("a repeat", f); again.FlowID != got.FlowID || again.Jobs["a"] != got.Jobs["a"] {
		g.t.Errorf("a repeat made %+v, not %+v", again, got)
	}
	f.Name = "g"
	g.flow("another body", f)
	g.stands("at first", got, 4, 1)
	p, err := g.c.Poll(g.ctx, got.Jobs["c"])
	g.say("a job that waits", []any{p.Status, p.Tier, p.Type, p.FirstTriedAt.IsZero()}, err)
	g.run(got.Jobs["a"], g.complete)
	g.stands("after the first", got, 2, 2)
	g.end(got, g.complete, "b", "b/1")
	g.stands("after two more", got, 0, 2)
	g.end(got, g.complete, "c", "d")
	done, err := g.c.WaitFlow(g.ctx, got.FlowID)
	g.say("a completed flow", []any{done.State, done.Counts}, err)

	for _, on := range []sdk.OnFailure{"", sdk.FlowRuns, sdk.FlowWaits} {
		got := g.flow("a flow that fails: "+string(on), sdk.NewFlow{Jobs: map[string]sdk.FlowJob{
			"a": flowStep(on), "b": flowStep(on, "a"), "c": flowStep(on, "b"),
		}})
		g.run(got.Jobs["a"], g.fail)
		if on == sdk.FlowRuns {
			g.stands("behind a failure", got, 1, 1)
			g.end(got, g.complete, "b")
			g.stands("behind a job that runs", got, 0, 1)
			g.end(got, g.complete, "c")
		}
		done, err := g.c.WaitFlow(g.ctx, got.FlowID)
		g.say("its end", []any{done.State, done.Counts}, err)
		g.stands("and its jobs", got, map[bool]int{true: 2}[on == sdk.FlowWaits], 0)
		if p, err := g.c.Poll(g.ctx, got.Jobs["c"]); on == "" {
			g.say("a cancelled job", []any{p.Status, p.FailureCause}, err)
		}
	}
	g.cancelledFlows()
}

// end runs jobs of a flow in the order in which a worker gets them.
func (g *groupsStory) end(f sdk.FlowAccepted, end func(id string), names ...string) {
	for _, name := range names {
		g.run(f.Jobs[name], end)
	}
}

// cancelledFlows tells of cancelled and refused flows, and of the list.
func (g *groupsStory) cancelledFlows() {
	later := flowStep("")
	later.Delay = time.Hour
	late := sdk.NewFlow{Name: "late", Jobs: map[string]sdk.FlowJob{"a": later, "b": flowStep("", "a")}}
	got := g.flow("a delayed flow", late)
	g.stands("a delayed job", got, 1, 1)
	c, err := g.c.CancelFlow(g.ctx, got.FlowID, "too late")
	g.say("a cancel", c.CancelRequested, err)
	_, err = g.c.WaitFlow(g.ctx, got.FlowID)
	g.say("a wait for it", nil, err)
	g.stands("a cancelled flow", got, 0, 0)
	for what, jobs := range map[string]map[string]sdk.FlowJob{
		"itself": {"a": flowStep("", "b"), "b": flowStep("", "a")}, "nothing": {"a": flowStep("", "b")},
		"a bad name": {"a//b": flowStep("")}, "a bad word": {"a": flowStep("never")},
	} {
		_, err := g.c.SubmitFlow(g.ctx, sdk.NewFlow{Jobs: jobs})
		e, ok := errors.AsType[*sdk.Error](err)
		if !ok || e.Status != 400 || e.Code != "INVALID_REQUEST" || len(e.Fields) != 1 {
			g.t.Errorf("a flow with %s: %v", what, err)
		}
	}
	unknown := sdk.FlowJob{Submission: sdk.Submission{Type: "RESIEZ"}}
	g.flow("an unknown type", sdk.NewFlow{Jobs: map[string]sdk.FlowJob{"a": unknown}})
	_, err = g.c.Flow(g.ctx, "019de340-01fe-7a58-be69-ffffffffffff")
	g.say("an unknown flow", nil, err)
	page, err := g.c.Flows(g.ctx, sdk.FlowFilter{State: sdk.FlowCancelled}, "", 10)
	g.say("the cancelled flows", len(page.Items), err)
	page, err = g.c.Flows(g.ctx, sdk.FlowFilter{JobID: got.Jobs["b"]}, "", 10)
	g.say("the flow of a job", len(page.Items) == 1 && page.Items[0].FlowID == got.FlowID, err)
	page, err = g.c.Flows(g.ctx, sdk.FlowFilter{}, "", 2)
	g.say("a page", []any{len(page.Items), page.Next != ""}, err)
}

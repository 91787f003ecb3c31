package archive

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/job"
)

// The table plans holds the tiers' plans. Redis decides which plan is in force; SQL stores it for a Redis that
// lost its data. An older version never replaces a row.

// planText is a plan as its row stores it, with the names and units of the API.
type planText struct {
	Priority            int                    `json:"priority"`
	MaxRetries          int                    `json:"maxRetries"`
	MaxCrashes          *int                   `json:"maxCrashes,omitempty"`
	OwnSlots            int                    `json:"ownSlots"`
	Lines               string                 `json:"lines,omitempty"`
	MaxWaitMs           int64                  `json:"maxWaitMs,omitempty"`
	HeartbeatTimeoutMs  int64                  `json:"heartbeatTimeoutMs"`
	MaxProcessingTimeMs int64                  `json:"maxProcessingTimeMs"`
	Share               int                    `json:"share"`
	Backoff             backoffText            `json:"backoff"`
	TypeBackoff         map[string]backoffText `json:"typeBackoff,omitempty"`
}

type backoffText struct {
	BaseMs int64   `json:"baseMs"`
	Factor float64 `json:"factor"`
	CapMs  int64   `json:"capMs"`
	Jitter float64 `json:"jitter"`
}

const readPlans = "SELECT tier, version, plan FROM plans ORDER BY tier"

// Plans reads the plans that SQL has. It returns job.ErrBadPlan if one of them cannot be used.
func (a *Archive) Plans(ctx context.Context) ([]job.Plan, error) {
	var rows []planRow
	if err := a.db.Read.WithContext(ctx).Raw(readPlans).Scan(&rows).Error; err != nil {
		return nil, database.Unavailable("read the plans", err)
	}
	plans := make([]job.Plan, len(rows))
	for i := range rows {
		var err error
		if plans[i], err = rows[i].read(); err != nil {
			return nil, fmt.Errorf("read the plans: %w", err)
		}
	}
	return plans, nil
}

// ReplacePlan stores a plan in place of an older version, but only if then returns nil. ReplacePlan calls then
// before the commit. The errors are:
//
//   - job.ErrChanged: SQL has this version or a later one; then was not called;
//   - job.ErrUnavailable: SQL did not store the plan;
//   - the error of then, unchanged: nothing was stored;
//   - job.ErrAmbiguous: then succeeded, and SQL may have stored the plan or not.
func (a *Archive) ReplacePlan(ctx context.Context, p job.Plan, then func(ctx context.Context) error) error {
	for try := range database.Tries {
		called, err := a.replacePlan(ctx, p, then)
		if called || err == nil || a.db.Dialect.Verdict(err) != database.Conflict {
			return err
		}
		if err := database.Backoff(ctx, try); err != nil {
			return database.Unavailable("store a plan", err)
		}
	}
	return fmt.Errorf("store a plan: %w: other writers are in the way", job.ErrUnavailable)
}

func (a *Archive) replacePlan(
	ctx context.Context, p job.Plan, then func(ctx context.Context) error,
) (called bool, err error) {
	tx := a.db.Write.WithContext(ctx).Begin()
	if tx.Error != nil {
		return false, database.Unavailable("store a plan", tx.Error)
	}
	defer tx.Rollback() // no effect after a commit
	stored, err := a.putPlan(tx, p, p.Version-1)
	if err != nil {
		return false, database.Unavailable("store a plan", err)
	}
	if !stored {
		return false, fmt.Errorf("store a plan: %w: SQL has a version of %s that is as new", job.ErrChanged, p.Tier)
	}
	if err := then(ctx); err != nil {
		return true, err
	}
	if err := tx.Commit().Error; err != nil {
		return true, database.Ambiguous("store a plan", err)
	}
	return true, nil
}

// KeepPlans stores plans as Redis has them. It leaves a row of a later version unchanged.
func (a *Archive) KeepPlans(ctx context.Context, plans []job.Plan) error {
	for _, p := range plans {
		if _, err := a.putPlan(a.db.Write.WithContext(ctx), p, p.Version); err != nil {
			return database.Unavailable("keep a plan", err)
		}
	}
	return nil
}

// putPlan inserts a plan's row, or replaces a row whose version is at most newest.
func (a *Archive) putPlan(db *gorm.DB, p job.Plan, newest int64) (stored bool, err error) {
	text, err := json.Marshal(textOf(p))
	if err != nil {
		return false, err
	}
	update := db.Exec("UPDATE plans SET version = ?, plan = ?, changed_at = "+a.db.Dialect.Now+
		" WHERE tier = ? AND version <= ?", p.Version, string(text), string(p.Tier), newest)
	if update.Error != nil || update.RowsAffected > 0 {
		return update.Error == nil, update.Error
	}
	insert := db.Exec("INSERT INTO plans (tier, version, plan, changed_at) VALUES (?, ?, ?, "+a.db.Dialect.Now+") "+
		a.db.Dialect.KeepFirst("tier"), string(p.Tier), p.Version, string(text))
	return insert.RowsAffected > 0, insert.Error
}

func textOf(p job.Plan) planText {
	t := planText{
		Priority: p.Priority, MaxRetries: p.MaxRetries, MaxCrashes: p.MaxCrashes, OwnSlots: p.OwnSlots,
		Lines:               string(p.Lines),
		MaxWaitMs:           p.MaxWait.Milliseconds(),
		HeartbeatTimeoutMs:  p.HeartbeatTimeout.Milliseconds(),
		MaxProcessingTimeMs: p.MaxProcessingTime.Milliseconds(), Share: p.Share, Backoff: backoffTextOf(p.Backoff),
	}
	for typ, b := range p.TypeBackoff {
		if t.TypeBackoff == nil {
			t.TypeBackoff = map[string]backoffText{}
		}
		t.TypeBackoff[typ] = backoffTextOf(b)
	}
	return t
}

func backoffTextOf(b job.Backoff) backoffText {
	return backoffText{BaseMs: b.Base.Milliseconds(), Factor: b.Factor, CapMs: b.Cap.Milliseconds(), Jitter: b.Jitter}
}

func (t backoffText) backoff() job.Backoff {
	return job.Backoff{Base: milliseconds(t.BaseMs), Factor: t.Factor, Cap: milliseconds(t.CapMs), Jitter: t.Jitter}
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func (r *planRow) read() (job.Plan, error) {
	var t planText
	if err := json.Unmarshal([]byte(r.Plan), &t); err != nil {
		return job.Plan{}, fmt.Errorf("%w %q: unreadable in SQL: %w", job.ErrBadPlan, r.Tier, err)
	}
	p := job.Plan{
		Tier: job.Tier(r.Tier), Priority: t.Priority, MaxRetries: t.MaxRetries, Share: t.Share, Version: r.Version,
		HeartbeatTimeout: milliseconds(t.HeartbeatTimeoutMs), MaxProcessingTime: milliseconds(t.MaxProcessingTimeMs),
		MaxCrashes: t.MaxCrashes, OwnSlots: t.OwnSlots, Lines: job.Lines(t.Lines),
		MaxWait: milliseconds(t.MaxWaitMs), Backoff: t.Backoff.backoff(),
	}
	for typ, b := range t.TypeBackoff {
		if p.TypeBackoff == nil {
			p.TypeBackoff = map[string]job.Backoff{}
		}
		p.TypeBackoff[typ] = b.backoff()
	}
	return p, p.Check()
}

package app

import (
	"context"
	"errors"

	"github.com/tierq/tierq/internal/httpapi"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/recovery"
)

// wireAudit makes the audit. Its loop runs in processes with the recovery role; every process can make a single
// pass on request.
func (v *server) wireAudit() {
	o := recovery.AuditOptions{
		Queue: v.queue, Desk: v.queue, View: v.view, SQL: v.stores.archive, Partitions: v.config.Partitions, Name: v.nonce,
		Now: v.view.Now, Observe: v.metrics, Log: v.log, Journal: v.stores.archive, Restorer: v.ledger,
		Flows: v.stores.archive, Batches: v.stores.archive, Places: v.reserved,
	}
	v.audit = recovery.NewAudit(o)
}

// audits gives the audit to the API.
type audits struct{ *server }

// quarantineShown is the largest number of quarantine entries that are shown.
const quarantineShown = 100

func (a audits) LastAudit(ctx context.Context) (httpapi.Audit, error) {
	r, err := a.view.LastAudit(ctx)
	switch {
	case errors.Is(err, job.ErrNotFound):
		return a.shown(ctx, nil)
	case err != nil:
		return httpapi.Audit{}, err
	}
	return a.shown(ctx, &r)
}

func (a audits) RunAudit(ctx context.Context) (httpapi.Audit, error) {
	r, err := a.audit.Run(ctx)
	if err != nil {
		return httpapi.Audit{}, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checksBound) // a pass may have used up all of ctx
	defer cancel()
	return a.shown(ctx, &r)
}

func (a audits) shown(ctx context.Context, r *job.AuditReport) (httpapi.Audit, error) {
	items, total, err := a.view.Quarantined(ctx, quarantineShown)
	if err != nil {
		return httpapi.Audit{}, err
	}
	return httpapi.Audit{Report: r, Quarantined: items, Total: total, Checks: a.checks(ctx, r, total)}, nil
}

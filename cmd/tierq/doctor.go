package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tierq/tierq/client"
	"github.com/tierq/tierq/internal/config"
)

// diagnosis is the output of doctor.
type diagnosis struct {
	Checks     []client.AuditCheck `json:"checks"`
	Report     *client.AuditReport `json:"report"`
	Quarantine client.Quarantine   `json:"quarantine"`
}

// The statuses of a check.
const (
	checkOK   = "ok"
	checkWarn = "warn"
	checkFail = "fail"
)

var checkColors = map[string]string{checkOK: "32", checkWarn: "33", checkFail: "31"}

func (p program) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check settings, server, stores and data, and say what to do", Args: noArgs,
		Long: "Check the settings of this shell, the server, its stores, and what the audit found in Redis. Each line is " +
			"ok, warn or fail, with\n" +
			"what to do about it; a fail is exit code 1.\n\n" +
			"With --repair the server audits Redis at once: it repairs what is safe to repair, and moves entries that it\n" +
			"cannot explain into quarantine. It does the same by itself every ten minutes.",
		Example: "  tierq doctor\n  tierq doctor --repair\n  tierq doctor -o json",
	}
	repair := cmd.Flags().Bool("repair", false, "audit Redis now, and repair what is safe to repair")
	cmd.RunE = p.talk(func(ctx context.Context, s *session, _ []string) error {
		d := diagnosis{Checks: []client.AuditCheck{p.checkSettings()},
			Quarantine: client.Quarantine{Items: []client.QuarantinedJob{}}}
		server, reached := s.checkServer(ctx)
		d.Checks = append(d.Checks, server)
		if reached {
			s.examine(ctx, &d, *repair)
		}
		if err := s.showDiagnosis(&d); err != nil {
			return err
		}
		failed := 0
		for _, c := range d.Checks {
			if c.Status == checkFail {
				failed++
			}
		}
		switch failed {
		case 0:
			return nil
		case 1:
			return errors.New("1 check failed")
		}
		return fmt.Errorf("%d checks failed", failed)
	}, client.WithTries(1))
	return cmd
}

// checkSettings checks whether serve would start with the environment of this shell.
func (p program) checkSettings() client.AuditCheck {
	const name = "settings"
	c, err := config.Load(p.environ, p.dotenv, nil)
	if problems, ok := errors.AsType[*config.Problems](err); ok {
		return client.AuditCheck{
			Name: name, Status: checkFail, Detail: strings.Join(problems.List, "; "),
			Fix: "correct these settings: `tierq serve` would not start; docs/SETTINGS.md has all settings",
		}
	}
	mode := "external mode"
	if c.Embedded() {
		mode = "embedded mode"
	}
	return client.AuditCheck{Name: name, Status: checkOK, Detail: "`tierq serve` would start here, in " + mode}
}

func (s *session) checkServer(ctx context.Context) (check client.AuditCheck, reached bool) {
	check = client.AuditCheck{Name: "server", Status: checkOK}
	ready, err := s.ready(ctx)
	if err != nil {
		check.Status, check.Detail = checkFail, brief(err)
		check.Fix = "start a server with `tierq serve`, or point --server / TIERQ_URL to yours"
		switch e, ok := errors.AsType[*client.Error](err); {
		case ok && nobodyThere(e):
			check.Detail = "there is no server at " + s.server
		case ok && stranger(e):
			check.Detail = notTierq(s.server)
		}
		return check, false
	}
	parts := []string{ready.Status}
	for _, c := range ready.Checks {
		if c.Status != "UP" {
			parts = append(parts, c.Name+" "+c.Status+": "+c.Detail)
		}
	}
	check.Detail = strings.Join(parts, "; ")
	switch ready.Status {
	case "UP":
	case "DEGRADED":
		check.Status, check.Fix = checkWarn, "repair the part that it names; the server runs without it meanwhile"
	default:
		check.Status, check.Fix = checkFail, "repair the part that it names; the server accepts no jobs until then"
	}
	return check, true
}

// examine gets the server's own checks. With repair it makes the server audit Redis first.
func (s *session) examine(ctx context.Context, d *diagnosis, repair bool) {
	ask := s.client.Audit
	if repair {
		ask = s.client.RunAudit
	}
	got, err := ask(ctx)
	if err != nil {
		c := client.AuditCheck{Name: "audit", Status: checkFail, Detail: brief(err), Fix: "look at the server's log"}
		if errors.Is(err, client.ErrNotFound) {
			c.Status, c.Fix = checkWarn, "the server is older than this program: bring both to one version"
		}
		d.Checks = append(d.Checks, c)
		return
	}
	d.Checks = append(d.Checks, got.Checks...)
	d.Report, d.Quarantine = got.Report, got.Quarantine
}

func (s *session) showDiagnosis(d *diagnosis) error {
	switch s.format {
	case asJSON, asNDJSON:
		return s.document(d)
	case asName:
		for _, q := range d.Quarantine.Items {
			if err := s.line(q.JobID); err != nil {
				return err
			}
		}
		return nil
	}
	type check = client.AuditCheck
	l := newList(s.output, nil,
		column[check]{head: "STATUS", cell: func(c check) string { return c.Status },
			color: func(c check) string { return checkColors[c.Status] }},
		column[check]{head: "CHECK", cell: func(c check) string { return c.Name }},
		column[check]{head: "FOUND", cell: func(c check) string { return c.Detail }},
		column[check]{head: "DO", cell: func(c check) string { return dash(c.Fix) }},
	)
	for _, c := range d.Checks {
		if err := l.add(c); err != nil {
			return err
		}
	}
	if err := l.end(nil); err != nil {
		return err
	}
	if err := s.showFindings(d.Report); err != nil {
		return err
	}
	return s.showQuarantine(d.Quarantine)
}

func (s *session) showFindings(r *client.AuditReport) error {
	if r == nil || len(r.Findings) == 0 {
		return nil
	}
	type finding = client.Finding
	l := newList(s.output, nil,
		column[finding]{head: "RESULT", cell: func(f finding) string { return f.Result }},
		column[finding]{head: "KIND", cell: func(f finding) string { return f.Kind }},
		column[finding]{head: "JOB", cell: func(f finding) string { return dash(f.JobID) }},
		column[finding]{head: "DETAIL", cell: func(f finding) string { return dash(f.Detail) }},
	)
	return showAll(s, l, r.Findings)
}

func (s *session) showQuarantine(q client.Quarantine) error {
	if len(q.Items) == 0 {
		return nil
	}
	type item = client.QuarantinedJob
	l := newList(s.output, nil,
		column[item]{head: "QUARANTINED", cell: func(i item) string { return i.JobID }},
		column[item]{head: "SINCE", cell: func(i item) string { return cmp.Or(s.moment(i.Since), "-") }},
		column[item]{head: "THERE", cell: func(i item) string { return map[bool]string{true: "yes", false: "no"}[i.There] }},
	)
	return showAll(s, l, q.Items)
}

// showAll prints a table below the previous one.
func showAll[T any](s *session, l *list[T], items []T) error {
	if err := s.print([]byte("\n")); err != nil {
		return err
	}
	for _, i := range items {
		if err := l.add(i); err != nil {
			return err
		}
	}
	return l.end(nil)
}

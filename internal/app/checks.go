package app

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/database"
	"github.com/tierq/tierq/internal/httpapi"
	"github.com/tierq/tierq/internal/job"
	"github.com/tierq/tierq/internal/queue"
)

// checksBound is the longest time that the checks wait for the stores.
const checksBound = 5 * time.Second

// The statuses of a check. A warning can wait; an operator has to act on a failure now.
const (
	fine    = "ok"
	warning = "warn"
	failing = "fail"
)

func check(name, status, detail, fix string) httpapi.AuditCheck {
	if status == fine {
		fix = ""
	}
	return httpapi.AuditCheck{Name: name, Status: status, Detail: detail, Fix: fix}
}

// checks returns what this process sees of its stores and of the cluster.
func (a audits) checks(ctx context.Context, r *job.AuditReport, quarantined int64) []httpapi.AuditCheck {
	ctx, cancel := context.WithTimeout(ctx, checksBound)
	defer cancel()
	f, redis := a.view.ReadFacts(ctx)
	s, sql := a.stores.database.ReadFacts(ctx)
	v, c := a.viewPoller.last(), a.config
	all := append(redisChecks(f, redis, c.Embedded()), durability(f, redis, c.Embedded(), c.Journaled()), sqlCheck(s, sql))
	return append(all, gateCheck(a.gateState()), workersCheck(pools(v.workers)),
		queuesCheck(a.queueBook.All(), v.levels.Queues, v.workers),
		ownSlotsCheck(a.plans.All(), pools(v.workers)), settingsCheck(c.Alike(), v.workers),
		capacityCheck(v.levels.Filled, int64(c.Capacity)),
		outboxCheck(v.levels.Outbox, int64(c.OutboxLimit)), quarantineCheck(quarantined), auditCheck(r, a.view.Now()),
		a.retentionCheck(), diskCheck(c.DataDir))
}

func redisChecks(f queue.Facts, err error, embedded bool) []httpapi.AuditCheck {
	if err != nil {
		return []httpapi.AuditCheck{check("redis", failing, "Redis does not answer",
			"start Redis, or correct REDIS_URL; the server's log has the error")}
	}
	if embedded {
		return []httpapi.AuditCheck{check("redis", fine, "inside this process", "")}
	}
	status, fix := fine, ""
	switch {
	case f.Version != "" && older(f.Version, 6, 2):
		status, fix = failing, "tierq needs Redis 6.2 or newer"
	case f.Role != "" && f.Role != "master":
		status, fix = failing, "point REDIS_URL to the master: a replica refuses writes"
	case f.Eviction != "" && f.Eviction != "noeviction":
		status, fix = failing, "set maxmemory-policy noeviction: otherwise Redis deletes jobs to make room"
	case (job.ServerMemory{Used: f.UsedMemory, Max: f.MaxMemory}).Over(80):
		status, fix = warning, "raise maxmemory: ended jobs are forgotten early, and a full Redis refuses submits"
	case f.Version == "" || f.Eviction == "":
		status, fix = warning, "allow INFO and CONFIG GET, or check by hand that maxmemory-policy is noeviction"
	}
	parts := []string{orElse(f.Version, "version unknown"), orElse(f.Role, "role unknown"),
		orElse(f.Eviction, "eviction unknown"), memory(f)}
	latency, slow := fine, ""
	if f.Latency > 20*time.Millisecond {
		latency, slow = warning, "put Redis and tierq closer together: a claim takes several round trips"
	}
	clock, skew := fine, ""
	if f.ClockOffset.Abs() > 5*time.Second {
		clock, skew = warning, "synchronise both clocks (NTP): tierq decides by Redis' clock, log lines show the host's"
	}
	return []httpapi.AuditCheck{
		check("redis", status, strings.Join(parts, ", "), fix),
		check("redis latency", latency, f.Latency.Round(10*time.Microsecond).String()+" per round trip", slow),
		check("redis clock", clock, f.ClockOffset.Round(time.Millisecond).String()+" ahead of this host's clock", skew),
	}
}

func memory(f queue.Facts) string {
	if f.MaxMemory == 0 {
		return fmt.Sprintf("%d MiB used", f.UsedMemory>>20)
	}
	return fmt.Sprintf("%d of %d MiB used", f.UsedMemory>>20, f.MaxMemory>>20)
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// older compares the first two numbers of a version; an unreadable version is not older.
func older(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	a, err1 := strconv.Atoi(parts[0])
	b, err2 := strconv.Atoi(parts[1])
	return err1 == nil && err2 == nil && (a < major || a == major && b < minor)
}

// durability says what a crash of Redis would lose.
func durability(f queue.Facts, err error, embedded, journaled bool) httpapi.AuditCheck {
	const name, fix = "durability", "set appendonly yes in Redis, or TIERQ_JOURNAL=on"
	switch {
	case embedded:
		return check(name, fine, "the accept journal has every job that has not ended", "")
	case err != nil:
		return check(name, warning, "Redis does not answer", "see the check redis")
	case journaled && f.AOF:
		return check(name, fine, "AOF "+f.Fsync+" and the accept journal", "")
	case journaled:
		return check(name, fine, "the accept journal: it restores the jobs that Redis loses", "")
	case f.AOF && f.Fsync == "no":
		return check(name, warning, "AOF with appendfsync no: a crash may lose the latest changes",
			"set appendfsync everysec, or TIERQ_JOURNAL=on")
	case f.AOF:
		return check(name, fine, "AOF "+f.Fsync, "")
	case !f.Known:
		return check(name, warning, "Redis does not say whether it persists", fix)
	case f.Save:
		return check(name, warning, "snapshots only: a crash of Redis loses the changes since the last snapshot", fix)
	}
	return check(name, warning, "Redis does not persist: a restart of Redis loses its jobs", fix)
}

func sqlCheck(f database.Facts, err error) httpapi.AuditCheck {
	schema := fmt.Sprintf("%s, schema %d", f.Version, f.Schema)
	switch {
	case err != nil:
		return check("sql", failing, "SQL does not answer",
			"start the database, or correct MYSQL_DSN; outcomes wait in Redis meanwhile")
	case !f.Strict:
		return check("sql", failing, f.Version+", not strict",
			"add STRICT_TRANS_TABLES to sql_mode: otherwise the database cuts long values off")
	case f.Schema < f.Newest:
		return check("sql", failing, fmt.Sprintf("%s of %d", schema, f.Newest),
			"restart a process of this build: it migrates the schema")
	case f.Schema > f.Newest:
		return check("sql", warning, fmt.Sprintf("%s, this build knows %d", schema, f.Newest),
			"finish the rollout: a newer build has migrated the schema")
	}
	return check("sql", fine, schema, "")
}

func gateCheck(g httpapi.Gate) httpapi.AuditCheck {
	if !g.Open {
		return check("gate", failing, "closed: "+g.Reason,
			"repair the store that the reason names; the gate then opens by itself")
	}
	return check("gate", fine, "open", "")
}

func workersCheck(workers []job.WorkerInfo) httpapi.AuditCheck {
	slots, running, stuck := 0, 0, 0
	var versions []string
	for _, w := range workers {
		slots, running, stuck = slots+w.Slots, running+w.Running, stuck+w.Stuck
		versions = append(versions, w.Version)
	}
	slices.Sort(versions)
	versions = slices.Compact(versions)
	detail := fmt.Sprintf("%d processes, %d of %d slots busy, %s", len(workers), running, slots,
		strings.Join(versions, " and "))
	switch {
	case len(workers) == 0:
		return check("workers", failing, "no process runs jobs", "start one with the worker role (TIERQ_ROLES)")
	case stuck > 0:
		detail += fmt.Sprintf("; %d handlers do not return", stuck)
		return check("workers", warning, detail,
			"make the handlers return when their context ends; /readyz of their process shows the slots lost to them")
	case len(versions) > 1:
		return check("workers", warning, detail, "finish the rollout")
	}
	return check("workers", fine, detail, "")
}

// queuesCheck warns if jobs wait in a queue that no worker claims from. It also names the queues that have workers but
// no jobs, because the name of the queue may be misspelt in its workers.
func queuesCheck(queues []job.Queue, levels map[string]queue.TierLevel, workers []job.WorkerInfo) httpapi.AuditCheck {
	const (
		name = "queues"
		fix  = "start a worker for the queue (docs/WORKERS.md), or correct the queue's name in its workers"
	)
	var alone, idle []string
	for _, q := range queues {
		served := q.Push.On() || slices.ContainsFunc(workers, func(w job.WorkerInfo) bool {
			return slices.Contains(w.Queues, q.Name)
		})
		level, has := levels[q.Name]
		switch {
		case !served && level.Ready > 0:
			alone = append(alone, fmt.Sprintf("%d jobs wait in %s, and no worker claims from it", level.Ready, q.Name))
		case served && !q.Push.On() && !has:
			idle = append(idle, q.Name)
		}
	}
	if len(alone) == 0 {
		return check(name, fine, "every queue with jobs has a worker", "")
	}
	if len(idle) > 0 {
		alone = append(alone, "these have workers and no job: "+strings.Join(idle[:min(len(idle), 10)], ", "))
	}
	return check(name, warning, strings.Join(alone[:min(len(alone), 10)], "; "), fix)
}

// ownSlotsCheck warns if plans ask for more slots of their own than a process has.
func ownSlotsCheck(plans []job.Plan, workers []job.WorkerInfo) httpapi.AuditCheck {
	const name = "own slots"
	wanted := 0
	for _, p := range plans {
		wanted += p.OwnSlots
	}
	for _, w := range workers {
		if wanted > 0 && wanted >= w.Slots {
			return check(name, warning, fmt.Sprintf("the plans ask for %d of each process' slots; %s has %d", wanted, w.Name,
				w.Slots), "lower ownSlots, or raise TIERQ_WORKERS: no slot is left for all tiers, and worse tiers get fewer")
		}
	}
	return check(name, fine, fmt.Sprintf("%d of each process", wanted), "")
}

func capacityCheck(used, limit int64) httpapi.AuditCheck {
	detail := fmt.Sprintf("%d of %d used", used, limit)
	if used*10 > limit*9 {
		return check("capacity", warning, detail, "add workers or raise TIERQ_CAPACITY: lower tiers are refused already")
	}
	return check("capacity", fine, detail, "")
}

func outboxCheck(jobs, limit int64) httpapi.AuditCheck {
	detail := fmt.Sprintf("%d jobs wait for SQL", jobs)
	switch {
	case jobs >= limit:
		return check("outbox", failing, detail, "repair SQL: the gate stays closed until SQL has these outcomes")
	case jobs > limit/10:
		return check("outbox", warning, detail, "find out why SQL is slow: jobs end faster than SQL stores their outcomes")
	}
	return check("outbox", fine, detail, "")
}

func quarantineCheck(n int64) httpapi.AuditCheck {
	if n > 0 {
		return check(
			"quarantine",
			warning,
			fmt.Sprintf("%d entries set aside", n),
			"inspect each entry: docs/operations/TROUBLESHOOTING.md, The audit",
		)
	}
	return check("quarantine", fine, "empty", "")
}

// oldPass is the age at which the last pass is too old: a pass starts every ten minutes, and one over a million
// jobs takes an hour.
const oldPass = 2 * time.Hour

func auditCheck(r *job.AuditReport, now time.Time) httpapi.AuditCheck {
	if r == nil {
		return check("audit", fine, "no pass yet: the first pass starts a minute after the server", "")
	}
	var findings int64
	for _, t := range r.Totals {
		findings += t.Count
	}
	detail := fmt.Sprintf("%d findings, %d jobs checked, %s ago", findings, r.Looks,
		max(now.Sub(r.StartedAt), 0).Round(time.Second))
	switch {
	case findings > 0:
		return check("audit", warning, detail,
			"find out whether Redis was edited by hand or lost data; tierq doctor --repair starts another pass")
	case !r.Whole:
		return check("audit", warning, detail+": "+r.Problem, "repair that; the next pass starts within a minute")
	case now.Sub(r.StartedAt) > oldPass:
		return check("audit", warning, detail, "start a process with the recovery role (TIERQ_ROLES)")
	}
	return check("audit", fine, detail, "")
}

func diskCheck(dir string) httpapi.AuditCheck {
	free, whole, err := diskSpace(dir)
	if err != nil {
		return check("disk", fine, "this process has no data folder", "")
	}
	free, whole = free>>20, max(whole>>20, 1)
	detail := fmt.Sprintf("%d MiB free of %d in the data folder", free, whole)
	switch {
	case free < 100:
		return check("disk", failing, detail, "free disk space: soon SQLite, mail and files of jobs cannot be written")
	case free < 1024:
		return check("disk", warning, detail, "free disk space, or move TIERQ_DATA_DIR")
	}
	return check("disk", fine, detail, "")
}

func (a audits) gateState() httpapi.Gate {
	g := a.gate.State()
	return httpapi.Gate{Open: g.Open, Failures: g.Failures, Reason: g.Reason}
}

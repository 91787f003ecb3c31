package main

import (
	"encoding/json"
	"net/http"
	"strings"
)

type obj = map[string]any

var statuses = map[string]string{doneID: "COMPLETED", failedID: "FAILED", pendingID: "PENDING", stoppedID: "CANCELLED"}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // an error means that the client left
}

func refuse(w http.ResponseWriter, status int, code string, fields ...obj) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	detail := ""
	for _, f := range fields {
		detail = f["field"].(string) + ": " + f["reason"].(string)
	}
	_ = json.NewEncoder(w).Encode(obj{"detail": detail, "status": status, "errorCode": code, "message": "Refused.",
		"traceId": "trace-9", "errors": fields})
}

func data(v any) obj { return obj{"apiResponseData": v} }

// polled returns a poll's answer about a job.
func polled(id, status string) obj {
	p := obj{
		"jobId": id, "currentJobStatus": status, "jobTier": "PAID", "type": "SIMULATION", "retryCount": 0, "maxRetries": 5,
		"arrivedAt": "2026-05-01T11:59:00.5Z", "result": nil, "position": nil, "etaSeconds": nil, "traceId": "trace-1",
	}
	switch status {
	case "PENDING":
		p["position"], p["etaSeconds"] = 12, 90
	case "COMPLETED":
		p["completedAt"], p["result"] = "2026-05-01T11:59:30Z", obj{"stepsRun": 1, "note": hostile}
	case "FAILED":
		p["retryCount"], p["failureCause"], p["lastError"] = 5, "HANDLER_ERROR", hostile
	}
	return p
}

// row returns a job as a list contains it.
func row(id, status string) obj {
	r := obj{
		"jobId": id, "type": "SIMULATION", "tier": "PAID", "status": status, "retryCount": 0, "attempts": 1, "maxRetries": 5,
		"generation": 1,
		"createdAt":  "2026-05-01T10:00:00Z", "firstTriedAt": "2026-05-01T10:00:01Z", "lastError": nil, "traceId": "trace-1",
	}
	if status == "FAILED" {
		r["failureCause"], r["lastError"], r["completedAt"], r["retryCount"] = "HANDLER_ERROR", hostile,
			"2026-05-01T11:00:00Z", 5
	}
	if status == "COMPLETED" {
		r["note"] = "rejected by 1 of 2: " + hostile
	}
	return r
}

// whole returns a job with its attempts, and a member that this client does not know.
func whole(id, status string) obj {
	r := row(id, status)
	r["generation"], r["news"], r["key"] = 2, true, "shop 7"
	r["history"] = []obj{
		{
			"attempt":    1,
			"worker":     "w1",
			"startedAt":  "2026-05-01T10:00:01Z",
			"finishedAt": "2026-05-01T10:00:01.25Z",
			"outcome":    "FAILURE",
			"cause":      "HANDLER_ERROR",
			"error":      hostile,
		},
		{
			"attempt":    2,
			"generation": 2,
			"worker":     "w2",
			"startedAt":  "2026-05-01T10:00:02Z",
			"finishedAt": "2026-05-01T10:00:03Z",
			"outcome":    "LATER",
			"reason":     "1 of 2 endpoints say SUBMITTED: " + hostile,
			"until":      "2026-05-01T10:00:05Z",
		},
		{"attempt": 3, "generation": 2, "worker": "w2", "startedAt": "2026-05-01T10:00:05Z", "outcome": "RUNNING"},
	}
	r["reasons"] = []obj{
		{"action": "requeue", "generation": 1, "at": "2026-05-01T10:00:01.5Z", "reason": "the bank is back " + hostile},
	}
	return r
}

// page returns pages of one job each; the cursor is the page's number.
func page(r *http.Request, ids ...string) obj {
	at := 0
	for i, cursor := range []string{"", "c1", "c2"} {
		if r.URL.Query().Get("cursor") == cursor {
			at = i
		}
	}
	status := statuses[ids[at]]
	if r.URL.Path == "/admin/dead" {
		status = "FAILED"
	}
	p := obj{"items": []obj{row(ids[at], status)}, "next": nil}
	if at+1 < len(ids) {
		p["next"] = []string{"c1", "c2"}[at]
	}
	return p
}

func plan(tier string, priority int) obj {
	return obj{
		"tier": tier, "priority": priority, "maxRetries": 5, "heartbeatTimeoutMs": 15000, "maxProcessingTimeMs": 50000,
		"share":       100,
		"backoff":     obj{"baseMs": 2000, "factor": 2, "capMs": 300000, "jitter": 0.2},
		"typeBackoff": obj{"REPORT": obj{"baseMs": 1, "factor": 1, "capMs": 1, "jitter": 0}},
		"version":     7,
	}
}

func stats() obj {
	tier := func(name string, depth int) obj {
		return obj{
			"tier": name, "depth": depth, "scheduled": 2, "oldestAgeSeconds": 75.5, "inFlight": 3, "submittedPerSecond": 12.4,
			"finishedPerSecond": 0.02,
			"waitSeconds":       obj{"p50": 0.001, "p95": 1.26, "p99": 130},
			"runSeconds":        obj{"p50": 0.0104, "p95": 0.5, "p99": 0.9},
			"submitted":         100, "refused": 1, "completed": 90, "failed": 4, "cancelled": 2, "retried": 7,
		}
	}
	return obj{
		"tiers": []obj{tier("PAID", 0), tier("PUBLIC", 1234)}, "capacity": obj{"used": 1234, "limit": 10000},
		"gate":   obj{"open": false, "failures": 3, "reason": hostile},
		"outbox": obj{"jobs": 5, "bytes": 4096}, "watches": []obj{}, "drainPerSecond": 17.2, "news": 1,
		"workers": []obj{{"name": "w1", "version": "v1.0.0", "slots": 16, "running": 3, "stuck": 1},
			{"name": "w2", "version": "v1.0.0", "slots": 16, "running": 0}},
	}
}

func audited(repair bool) obj {
	found := []obj{}
	if repair {
		found = []obj{
			{"jobId": pendingID, "partition": 0, "result": "REPAIRED", "kind": "missing", "detail": ""},
			{"jobId": nil, "partition": nil, "result": "REPORTED", "kind": "unknown_key", "detail": hostile},
		}
	}
	return obj{
		"report": obj{"startedAt": "2026-05-01T11:59:00Z", "seconds": 0.5, "by": "w1", "looks": 12, "whole": true,
			"problem": "", "totals": []obj{}, "findings": found},
		"quarantine": obj{"total": 1, "items": []obj{{"jobId": failedID, "partition": 0, "since": "2026-05-01T11:00:00Z",
			"there": false}}},
		"checks": []obj{
			{"name": "redis", "status": "ok", "detail": "7.2.4, master, noeviction"},
			{"name": "quarantine", "status": "warn", "detail": "1 set aside", "fix": hostile},
			{"name": "sql", "status": "fail", "detail": "it does not answer", "fix": "start it"},
		},
	}
}

// apiKey returns a key that is valid, revoked or expired.
func apiKey(id string, state int) obj {
	k := obj{
		"id": id, "name": "ci " + hostile, "role": "submit", "tiers": []string{"PUBLIC", "UNPAID"}, "types": []string{},
		"queues": []string{}, "rate": 100, "burst": 0, "inFlight": 5,
		"createdAt": "2026-05-01T10:00:00Z", "createdBy": nil, "rotatedAt": nil, "expiresAt": nil, "revokedAt": nil,
		"lastUsedAt": "2026-05-01T11:59:00Z",
	}
	switch state {
	case 1:
		k["revokedAt"], k["tiers"], k["types"] = "2026-05-01T11:00:00Z", []string{}, []string{"SEND_EMAIL"}
	case 2:
		k["expiresAt"], k["rate"], k["inFlight"], k["lastUsedAt"], k["createdBy"] = "2026-05-01T12:00:00Z", 0, 0, nil, keyID
	}
	return k
}

func madeKey() obj {
	k := apiKey(keyID, 0)
	k["key"] = "tq_" + keyID + "_Zm9yIHRlc3RzIG9ubHkgYW5kIG5vdGhpbmcgZWxzZSE"
	return k
}

func gateway() obj {
	const password = "Zm9yIHRlc3RzIG9ubHkgYW5kIG5vdGhpbmcgZWxzZSE"
	return obj{"keyId": keyID, "password": password, "faktoryUrl": "tcp://" + keyID + ":" + password + "@jobs.local:7419"}
}

// key rotates or revokes the only key, or shows its gateway password.
func (f *fake) key(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.PathValue("id") != keyID:
		refuse(w, http.StatusNotFound, "NOT_FOUND")
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	case strings.HasSuffix(r.URL.Path, "/gateway"):
		reply(w, http.StatusOK, gateway())
	default:
		reply(w, http.StatusOK, madeKey())
	}
}

// changes returns three changes, two on the first page.
func changes(cursor string) obj {
	one := obj{
		"id": 3, "at": "2026-05-01T11:59:00Z", "actor": keyID, "name": hostile, "address": "2001:db8::1",
		"action": "tier.put", "target": "PAID",
		"before": obj{"share": 100}, "after": obj{"share": 40}, "outcome": "done", "traceId": "trace-1",
	}
	two := obj{
		"id": 2, "at": "2026-05-01T11:00:00Z", "actor": keyID, "name": nil, "address": "192.0.2.1", "action": "job.cancel",
		"target": failedID,
		"before": nil, "after": nil, "outcome": "refused", "traceId": nil,
	}
	if cursor == "" {
		return obj{"items": []obj{one, two}, "next": "2"}
	}
	two["id"], two["actor"], two["address"], two["action"], two["target"], two["outcome"] = 1, nil, nil,
		"consistency.repair", "", "unknown"
	return obj{"items": []obj{two}, "next": nil}
}

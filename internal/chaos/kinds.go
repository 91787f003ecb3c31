package chaos

import (
	"context"
	"syscall"
	"time"
)

// The faults have the numbers of RELIABILITY.md. A lane draws from one of these lists.

// ofServers returns the faults of one server and of its connections.
func (c *cluster) ofServers() []kind {
	all := []kind{
		{id: "F01", what: "kill -9 of a server", weight: 8, repeats: true, inject: killed},
		{id: "F02", what: "killed between claim and handler", repeats: true, inject: atPoint("claim.after")},
		{id: "F03", what: "killed between handler and complete", repeats: true, inject: atPoint("handler.after")},
		{id: "F04", what: "killed between complete and SQL", repeats: true, inject: atPoint("complete.after")},
		{id: "F05", what: "killed between SQL and acknowledge", repeats: true, inject: atPoint("record.after")},
		{id: "F06", what: "killed when fail was executed, unanswered", repeats: true, inject: afterScript("fail")},
		{id: "F06", what: "killed when acknowledge was executed, unanswered", repeats: true,
			inject: afterScript("acknowledge")},
		{id: "F07", what: "killed between a requeue's promise and its script", repeats: true,
			inject: atPoint("promise.after")},
		{id: "F07", what: "killed between a requeue's script and its mark", repeats: true, inject: atPoint("requeue.after")},
		{id: "F09", what: "SIGTERM", repeats: true, inject: stopped(syscall.SIGTERM, 1)},
		{id: "F09", what: "SIGTERM twice", repeats: true, inject: stopped(syscall.SIGTERM, 2)},
		{id: "F09", what: "SIGINT", repeats: true, inject: stopped(syscall.SIGINT, 1)},
		{id: "F07", what: "killed when a schedule's job is in SQL", repeats: true, inject: atPoint("schedule.after")},
		{id: "F10", what: "a server frozen for longer than its leases", repeats: true, freezes: true,
			inject: frozen(5*time.Second, 7*time.Second)},
		{id: "F11", what: "a server frozen for half its leases", freezes: true,
			inject: frozen(400*time.Millisecond, 600*time.Millisecond)},
		{id: "F12", what: "a drainer frozen between SQL and acknowledge", repeats: true, freezes: true,
			inject: frozenAtPoint("record.after")},
		{id: "F28", what: "replies of Redis 200 to 1500 ms late", repeats: true, inject: late},
		{id: "F30", what: "everything to and from Redis swallowed", repeats: true, inject: swallowed},
		{id: "F31", what: "reset in the middle of a claim's reply", inject: halvedReply},
		{id: "F31", what: "reset in the middle of what goes to SQL", inject: cutStatement},
		{id: "F40", what: "cut in COMMIT", inject: lostCommit},
	}
	if c.long() {
		all = append(all, kind{
			id: "F12", what: "a requeue's promise frozen for longer than the retention", repeats: true, freezes: true,
			inject: frozenFor("promise.after", 75*time.Second),
		})
	}
	for _, s := range scripts {
		all = append(all, kind{id: "F27", what: "replies of " + s + " lost", inject: lostReplies(s)})
	}
	return all
}

// long says whether a run has time for faults that take most of a minute. A run with Options.Only always has.
func (c *cluster) long() bool { return c.Over >= 3*time.Minute || c.Only != nil }

// ofRedis returns the faults of Redis, which all servers see at once. Faults that make Redis forget run with the
// journal only.
func (c *cluster) ofRedis() []kind {
	all := []kind{
		{id: "F13", what: "Redis frozen for 1 s", inject: redisStopped(time.Second, 1)},
		{id: "F13", what: "Redis frozen for 5 s", inject: redisStopped(5*time.Second, 1)},
		{id: "F15", what: "kill -9 of Redis, AOF always", weight: 3, inject: redisKilled(nil, nil)},
		{id: "F20", what: "SCRIPT FLUSH in a loop", inject: scriptsFlushed},
		{id: "F21", what: "CLIENT KILL in a loop", inject: clientsKilled},
		{id: "F22", what: "maxmemory reached", inject: full},
		{id: "F24", what: "READONLY", inject: replica},
		{id: "F25", what: "CLIENT PAUSE WRITE for 3 s", inject: writesPaused},
		{id: "F33", what: "maxclients reached", inject: crowded},
		{id: "F52", what: "a plan deleted", inject: planDeleted},
		{id: "F56", what: "Redis flaps, 1 s on and 1 s off", inject: redisStopped(time.Second, 4)},
	}
	if c.long() {
		all = append(all, kind{id: "F22", what: "maxmemory reached, and it stays", inject: limitStays})
	}
	if !c.Journal {
		return all
	}
	forget := func(id, what string, inject func(context.Context, *wound) (string, error)) kind {
		return kind{id: id, what: what, repeats: true, forgets: true, inject: rolledBack(inject)}
	}
	return append(all,
		forget("F16", "kill -9 of Redis, everysec", redisKilled(everysec, nil)),
		forget("F17", "power loss: the AOF's tail is cut", rewritten(redisKilled(nil, aofCut))),
		forget("F19", "restart of an empty Redis", redisKilled(nil, aofGone)),
		forget("F19", "FLUSHALL", flushed),
	)
}

// ofSQL returns the faults of MariaDB. MariaDB never decides when a job is run.
func ofSQL() []kind {
	return []kind{
		{id: "F14", what: "MariaDB frozen", inject: sqlStopped},
		{id: "F36", what: "kill -9 of MariaDB", inject: sqlKilled},
		{id: "F37", what: "read_only", inject: readOnly},
		{id: "F38", what: "deadlocks", inject: deadlocked},
		{id: "F39", what: "locks held for longer than anybody waits", inject: locked},
		{id: "F41", what: "max_connections reached", inject: noConnections},
		{id: "F42", what: "wait_timeout", inject: idleCut},
	}
}

// ofTheHouse returns the faults that belong to no single server or store.
func (c *cluster) ofTheHouse() []kind {
	all := []kind{
		{id: "F46", what: "a job that kills its process", weight: 2, repeats: true, inject: poisoned},
		{id: "F47", what: "a job that ignores its context", inject: hanging},
		{id: "F55", what: "clients hang up", inject: hungUp},
		{id: "F52", what: "a plan changed", inject: planChanged},
		{id: "F52", what: "a tier added", inject: tierAdded},
		{id: "F52", what: "a tier paused", inject: tierPaused},
		{id: "F52", what: "limits of keys changed", inject: keysHeld},
	}
	if !c.Embedded {
		all = append(all, kind{id: "F08", what: "kill -9 of all servers", repeats: true, inject: allKilled})
	}
	return all
}

// ofEmbedded returns the faults of an embedded server. Its Redis ends with every process.
func ofEmbedded() []kind {
	return []kind{
		{id: "F01", what: "kill -9 of a server", weight: 8, repeats: true, inject: killed},
		{id: "F02", what: "killed between claim and handler", repeats: true, inject: atPoint("claim.after")},
		{id: "F03", what: "killed between handler and complete", repeats: true, inject: atPoint("handler.after")},
		{id: "F04", what: "killed between complete and SQL", repeats: true, inject: atPoint("complete.after")},
		{id: "F05", what: "killed between SQL and acknowledge", repeats: true, inject: atPoint("record.after")},
		{id: "F07", what: "killed between a requeue's promise and its script", repeats: true,
			inject: atPoint("promise.after")},
		{id: "F07", what: "killed between a requeue's script and its mark", repeats: true, inject: atPoint("requeue.after")},
		{id: "F07", what: "killed when the journal's rows are written", repeats: true, inject: atPoint("journal.after")},
		{id: "F07", what: "killed when a schedule's job is in SQL", repeats: true, inject: atPoint("schedule.after")},
		{id: "F09", what: "SIGTERM", repeats: true, inject: stopped(syscall.SIGTERM, 1)},
		{id: "F09", what: "SIGTERM twice", repeats: true, inject: stopped(syscall.SIGTERM, 2)},
		{
			id: "F10", what: "a server frozen for longer than its leases", repeats: true, freezes: true,
			inject: frozen(5*time.Second, 7*time.Second),
		},
		{id: "F11", what: "a server frozen for half its leases", freezes: true,
			inject: frozen(400*time.Millisecond, 600*time.Millisecond)},
		{id: "F39", what: "killed while SQLite was locked", weight: 3, repeats: true, inject: killedWhileLocked},
	}
}

// Package sim runs tierq in virtual time: processes of the real queue, pool, watches, promoter, drainer, reconciler and
// ledger over one embedded server, inside a testing/synctest bubble. A seed decides the weather: crashes, partitions,
// stalls, lost replies, refused calls, calls that execute long after their caller gave up, SQL outages, slow, failing,
// stuck and murderous handlers. The same seed gives the same run, call by call.
//
//	world.go      one run, from its start to its end
//	plan.go       what a seed asks for: the processes, the clients' orders, the faults and their rates
//	gate.go       every call of every process stops at the gate, and the scheduler lets one through at a time
//	scheduler.go  which one, when, and with what fate; when time passes; when all is over
//	fates.go      what may befall a single call, and the ghosts of calls that come late or twice
//	walks.go      what only some seeds do: plans that change, keys that expire, jobs that are forgotten, a full Redis
//	storms.go     the faults that are not a single call's: crashes, drains, partitions, stalls, outages
//	store.go      the embedded server and its scripts, called directly
//	hook.go       go-redis on one side, the gate on the other
//	process.go    one process of tierq, wired as app does it
//	database.go   SQL, as far as the others can tell
//	journal.go    the accept journal in SQL; journal_plan.go: what a seed asks of it; journal_client.go: submits with it
//	loss.go       a Redis that forgets everything
//	client.go     who submits, cancels and requeues; poll.go: who asks; audit.go: who audits
//	handler.go    the job type that the seed decides about
//	writer.go     what stands for the archive's writer
//	shadow.go     the state machine once more, in Go: every answer of the store is held to it; moves.go, endings.go:
//	              script by script
//	punctual.go   what must happen in time, and what excuses whoever is late
//	check.go      what must hold in between and at the end
//	trace.go      what happened, call by call
//
// Why it is built so, and what it cannot see: docs/adr/0013-simulation.md.
package sim

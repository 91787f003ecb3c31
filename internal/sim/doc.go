// Package sim runs tierq in virtual time: processes with the real queue, pool, watches, promoter, drainer,
// reconciler and ledger, over one embedded server, inside a testing/synctest bubble. A seed decides the faults:
// crashes, partitions, stalls, lost replies, refused calls, calls that execute long after their caller gave up,
// SQL outages, and handlers that are slow, fail, get stuck or kill their process. The same seed gives the same
// run, call by call.
//
//	world.go      one run, from its start to its end
//	plan.go       what a seed draws: the processes, the clients' orders, the faults and their rates
//	expiry.go     the jobs that must be claimed by a time
//	gate.go       every call of every process stops at the gate, and the scheduler lets one through at a time
//	scheduler.go  which call goes through, when, and with what fate; when time passes; when the run is over
//	fates.go      the faults of a single call, and the ghosts: calls that execute late or twice
//	walks.go      what only some seeds do: plans that change, keys that expire, jobs that are forgotten, a full Redis
//	storms.go     the faults that do not belong to a single call: crashes, drains, partitions, stalls, outages
//	store.go      the embedded server and its scripts, called directly
//	hook.go       go-redis on one side, the gate on the other
//	process.go    one process of tierq, wired as app does it
//	database.go   SQL, as far as the other parts can see it
//	journal.go    the accept journal in SQL; journal_plan.go: its part of a seed; journal_client.go: submits with it
//	loss.go       a Redis that forgets everything
//	client.go     clients that submit, cancel and requeue; poll.go: polls; audit.go: audits
//	unique.go     unique keys, and rule S25; shadow_unique.go: what submits with them may answer, and who waits for whom
//	schedules.go  schedules that all processes fire, and rule S28
//	batches.go    batches in SQL; batches_plan.go: what clients ask of them; batches_check.go: rule S30
//	flows.go      flows in SQL; flows_plan.go: what clients ask of them; flows_check.go: rule S33 and its model of flows
//	places.go     places of jobs that SQL has and Redis not yet; rule S34
//	lines.go      lines, the limits of their keys, and rule S27; shadow_lines.go: what claims may do with
//	              jobs in lines; shadow_limits.go: whether a key may run
//	outsider.go   workers of other programs, which claim by id; shadow_outsider.go: what their claims may answer
//	logs.go       what handlers tell beside the result: progress and lines of a log
//	handler.go    the job type whose attempts the seed decides
//	writer.go     the stand-in for the archive's writer
//	shadow.go     a second state machine, in Go, with which every answer of the store is compared; moves.go,
//	              endings.go, restores.go: script by script
//	punctual.go   what has to happen in time, and what excuses a process that is late
//	damage.go     lines that are damaged by hand, which the audit repairs
//	check.go      what has to hold during a run and at its end
//	trace.go      what happened, call by call
//
// docs/adr/0013-simulation.md has the reasons for this design, and what it cannot find.
package sim

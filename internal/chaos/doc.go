// Package chaos runs real tierq servers, a real redis-server and a real mariadbd under load. It breaks them in
// every way that docs and configuration allow. The checker (internal/chaos/check) then reports which promises were
// broken.
//
//	cluster.go, server.go  the processes that are broken: children of this process, which end with it
//	kinds.go               the faults by name, and which of them may run when
//	faults_*.go            one short function per fault; each returns the evidence that the fault landed
//	embedded.go            an embedded server's faults, and first starts that are killed
//	red.go                 the walks that a run leaves out, because a promise is known to be broken there
//	lane.go                injects the faults, in an order and with pauses from the seed
//	outside.go             the queue of the workers of other programs, which claim and report over HTTP
//	faktory.go             the clients that speak Faktory's protocol, which share that queue
//	batches.go             the numbers of batches, rounds and members in the report
//	lines.go               the limits of the keys of lines, and the fault that changes them
//	schedules.go           the API key of the operators of schedules, whose changes go on while everything breaks
//	doors.go, looks.go     API keys and the receiver of callbacks; audits of the running Redis, and passes of the
//	                       servers' own audit
//	run.go                 load and faults together, rest, evidence, verdict
//	mutate*.go             seeded bugs in a copy of the tree: the checker has to catch each
package chaos

// Package chaos runs real tierq servers, a real redis-server and a real mariadbd under load, breaks them in every way
// that docs and configuration allow, and lets the checker (internal/chaos/check) say which promises were broken.
//
//	cluster.go, server.go  what is broken: everything is a child of this process and dies with it
//	kinds.go               the faults by name, and which of them may run when
//	faults_*.go            one short function per fault, each returns the evidence that it landed
//	embedded.go            a server that has its stores in itself, and first starts that are killed
//	red.go                 where chaos does not walk, because a promise is known to be broken there
//	lane.go                who breaks what when, from a seed
//	doors.go, looks.go     API keys and the receiver of callbacks; looks at the living Redis, and passes of the servers'
//	                       own audit
//	run.go                 load and faults together, rest, evidence, verdict
//	mutate*.go             seeded bugs in a copy of the tree: the checker has to catch each
package chaos

// Package conformance tests the worker libraries (Go, Node, Python) and the built-in pool against one table: what a
// handler does, and what is reported. It has test code only.
//
//	fake_test.go      a server of worker calls: fake_claim_test.go hands out jobs, and fake_told_test.go keeps what the
//	                  server is told; checks_test.go has the invariants that it checks all the time, and script_test.go
//	                  what it answers late, not at all, refused or hostile
//	rows_*_test.go    the table: a behaviour, the languages that have it, and the report that is wanted
//	subjects_test.go  the programs of testdata, one for each language: a handler for each behaviour
//	table_test.go     one worker runs the table, with good jobs in between; pool_test.go does so with the pool
//	hostile_test.go   servers that answer nonsense; refused_test.go: refusals and lost calls
//	times_test.go     deadlines, progress, cancel, heartbeats; logs_test.go: what the worker's own log says
//	process_test.go   processes that end, and queues that are not declared
//	                  100 good jobs beside poisonous ones are there, too; endless_test.go ends them
//	mutations_test.go bugs that are put into copies of the libraries, and that the table has to notice
package conformance

// Package failpoint stops a process at a chosen line, so that a test can show what a crash exactly there leaves behind.
//
// Only a build with the tag "failpoint" has it: there TIERQ_FAILPOINTS says what happens where, for example
//
//	TIERQ_FAILPOINTS="claim.after=kill,complete.after=kill@2,record.after=sleep:200ms"
//
// The actions are kill (SIGKILL to itself), stop (SIGSTOP to itself) and sleep:<duration>; @n acts only at the n-th hit
// of the point. Before it acts, the process writes one line to stderr, the evidence that the fault landed:
//
//	failpoint claim.after hit pid=4711 jobs=<id>,<id>
//
// Every other build has none of it: Hit is empty, and the environment is not read.
package failpoint

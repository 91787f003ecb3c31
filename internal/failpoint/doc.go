// Package failpoint stops a process at a chosen line, so that a test can show what a crash at that line leaves
// behind.
//
// Only a build with the tag "failpoint" has failpoints. In such a build TIERQ_FAILPOINTS sets what happens at
// which point, for example
//
//	TIERQ_FAILPOINTS="claim.after=kill,complete.after=kill@2,record.after=sleep:200ms"
//
// The actions are kill (SIGKILL to itself), stop (SIGSTOP to itself) and sleep:<duration>. @n acts only at the
// n-th hit of the point. Before it acts, the process writes one line to stderr as the evidence that the fault
// landed:
//
//	failpoint claim.after hit pid=4711 jobs=<id>,<id>
//
// In every other build Hit is empty, and the environment is not read.
package failpoint

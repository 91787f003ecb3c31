// Package e2e holds the tests of the whole system: real server processes, a real Redis, a real MariaDB, and real
// faults. Each test logs the evidence that its fault had an effect, and ends with the audit: every accepted job is
// in exactly one place and has one outcome.
package e2e

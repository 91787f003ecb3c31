// Package e2e holds the tests of the whole: real server processes, a real Redis, a real MariaDB, and faults that really
// happen. Each test logs the evidence that its fault landed, and ends with the audit: every accepted job in exactly one
// place, one outcome each.
package e2e

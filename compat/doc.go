// Package compat runs the clients and workers that others wrote for Faktory against tierq's gateway: their own tests,
// unmodified, and scenarios of ours with their libraries. It is a module of its own, so that they are no dependency of
// tierq.
package compat

package main

import (
	"fmt"
	"slices"
)

// A goal is what tierq aims at: a figure of its own, or its ratio to an engine's in the same run.
type goal struct {
	measure string
	of      string // whose figure: tierq, or tierq with another setting
	engine  string // beside whose; "" = by itself
	least   float64
	most    float64 // where less is better; then least is 0
	why     string
}

const forgets = "tierq, retention 0"

// The goals, in the order of docs/speed/BENCH.md. Faktory is not among the contenders: its own figures, of a machine of
// two cores, stand for it.
var goals = []goal{
	{drainRate, tierqName, "asynq", 4, 0, "the server keeps results in MariaDB, asynq none"},
	{drainRate, forgets, "asynq", 5, 0, "neither keeps an ended job in Redis"},
	{drainRate, tierqName, "BullMQ", 2, 0, "both keep results"},
	{drainRate, tierqName, "River", 1, 0, "both keep results in SQL"},
	{drainRate, tierqName, "bare", 0.85, 0, "what a server around the protocol may cost"},
	{redisCPU, tierqName, "asynq", 0, 0.35, "outbox and acknowledge included"},
	{enqueue64, tierqName, "", 40000, 0, "single submits a second over HTTP"},
	{enqueue64, tierqName, "bare", 0.85, 0, "within 15 % of a bare group commit"},
	{enqueue64, tierqName, "", 46000, 0, "Faktory's native pushes (46k/s)"},
	{bulkRate, tierqName, "", 120000, 0, "jobs a second over HTTP"},
	{bulkRate, tierqName, "BullMQ", 2, 0, "its addBulk"},
	{bulkRate, tierqName, "River, COPY", 1, 0, "its InsertManyFast"},
	{pickup50, tierqName, "", 0, 0.3, "over HTTP"},
	{pickup99, tierqName, "", 0, 1, "over HTTP"},
	{pickup50, tierqName, "BullMQ", 0, onPar, "on par or better"},
	{pickup99, tierqName, "BullMQ", 0, onPar, "on par or better"},
	{pickup50, tierqName, "", 0, 0.21 * onPar, "on par with Faktory (0.21 ms)"},
	{pickup99, tierqName, "", 0, 0.44 * onPar, "on par with Faktory (0.44 ms)"},
	{result50, tierqName, "", 0, 1, "submit to long-poll answered"},
	{durable99, tierqName, "", 0, 5, "submit to row in MariaDB"},
	{bytesQueued, tierqName, "", 0, 470, "bytes, for 100 of payload"},
}

// onPar: runs differ by this much.
const onPar = 1.15

// verdict is a goal's line: whether it was met, missed, or not measured, and by what.
func (g goal) verdict(t *table, names []string) string {
	what, values, got := g.measure+": "+g.of, t.values[cell(g.measure, g.of)], "not measured"
	if g.engine != "" {
		what += " / " + g.engine
		values = nil
		if i := slices.IndexFunc(names, func(name string) bool { return leads(name, g.engine) }); i >= 0 {
			values = ratios(t, g.measure, g.of, names[i])
		}
	}
	word := "?"
	if len(values) > 0 {
		v := middle(values)
		if word = "missed"; g.met(v) {
			word = "met"
		}
		got = fmt.Sprintf("%s (%s)", number(v), numbers(values))
	}
	return fmt.Sprintf("%-6s %-62s %-9s %s   [%s]", word, what, g.bound(), got, g.why)
}

func (g goal) met(v float64) bool {
	if g.most > 0 {
		return v <= g.most
	}
	return v >= g.least
}

func (g goal) bound() string {
	if g.most > 0 {
		return "<= " + number(g.most)
	}
	return ">= " + number(g.least)
}

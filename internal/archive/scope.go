package archive

import (
	"github.com/tierq/tierq/internal/job"

	"github.com/tierq/tierq/internal/database"
)

// scope is what a list is narrowed to before its other filters: one owner's jobs, one trace's, or both. Each has
// indexes in the orders of the lists, so that other jobs, however many, are not read. Of both, the trace has the
// index: its jobs are fewer.
type scope struct{ owned, traced bool }

func scopeOf(f *job.Filter) scope { return scope{owned: f.Owner != nil, traced: f.TraceID != ""} }

// from is the part of a statement behind FROM: a table, which may have an alias, read by the scope's index, and WHERE
// with the scope's conditions and AND. suffix is that of the index beside <table>_owner and <table>_trace; "" is the
// one in the order of the primary key.
func (s scope) from(d *database.Dialect, table, alias, suffix string) string {
	text, column := table, ""
	if alias != "" {
		text, column = table+" "+alias, alias+"."
	}
	switch {
	case s.traced:
		text += d.By(table + "_trace" + suffix)
	case s.owned:
		text += d.By(table + "_owner" + suffix)
	case suffix == "": // with a tier and an outcome a planner prefers their index, and sorts what it finds by that
		text += d.ByPrimary
	default:
		text += d.By(table + suffix)
	}
	text += " WHERE "
	if s.traced {
		text += column + "trace_id = @trace AND "
	}
	if s.owned {
		text += column + "owner = @owner AND "
	}
	return text
}

// scopeArgs adds the arguments of a filter's scope.
func scopeArgs(args map[string]any, f *job.Filter) map[string]any {
	if f.Owner != nil {
		args["owner"] = *f.Owner
	}
	if f.TraceID != "" {
		args["trace"] = f.TraceID
	}
	return args
}

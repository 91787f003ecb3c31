package archive

import (
	"github.com/tierq/tierq/internal/job"

	"github.com/tierq/tierq/internal/database"
)

// scope says to which jobs a list is narrowed before its other filters: one owner's, one trace's, or both. Each
// scope has indexes in the orders of the lists, so that the rows of other jobs are not read. With both, the list
// walks the trace's index, because a trace has fewer jobs.
type scope struct{ owned, traced bool }

func scopeOf(f *job.Filter) scope { return scope{owned: f.Owner != nil, traced: f.TraceID != ""} }

// from returns the part of a statement behind FROM: a table, which may have an alias, with the scope's index, and
// WHERE with the scope's conditions and AND. suffix selects the index <table>_owner<suffix> or
// <table>_trace<suffix>; "" is the one in the order of the primary key.
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
	case suffix == "": // for a tier and an outcome a planner would prefer their index, and sort the rows
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

package databasetest

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/tierq/tierq/internal/database"
)

// Plan reads the database's plan for a query, one string per step.
func Plan(t *testing.T, db *database.DB, query string, args []any) (steps []string) {
	t.Helper()
	verb := "EXPLAIN FORMAT=TRADITIONAL " // MySQL's default format is a tree
	if db.Read != db.Write {
		verb = "EXPLAIN QUERY PLAN "
	}
	var rows []map[string]any
	if err := db.Read.Raw(verb+query, args...).Scan(&rows).Error; err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if detail, ok := r["detail"]; ok {
			steps = append(steps, fmt.Sprint(detail))
			continue
		}
		if _, ok := r["table"]; !ok {
			t.Fatalf("a plan without tables: %v", r)
		}
		var parts []string
		for _, c := range []string{"table", "type", "key", "rows", "Extra"} {
			if s, ok := r[c].([]byte); ok {
				r[c] = string(s)
			}
			parts = append(parts, fmt.Sprintf("%s=%v", c, r[c]))
		}
		steps = append(steps, strings.Join(parts, " "))
	}
	return steps
}

// WholeTable says whether a step of a plan reads a whole table.
func WholeTable(step string) bool {
	whole := strings.Contains(step, "type=ALL") || strings.Contains(step, "type=index ") ||
		strings.HasPrefix(step, "SCAN ")
	return whole && !OfPage(step)
}

// OfPage says whether a step reads only the keys of the page to be shown, or the rows to be counted: <derived2>, p
// and k.
func OfPage(step string) bool {
	return strings.HasPrefix(step, "table=<derived") || step == "SCAN p" || step == "SCAN k"
}

// PlannedRows returns how many rows MariaDB expects a step to read; math.MaxInt for SQLite, which does not say.
func PlannedRows(step string) int {
	_, rows, _ := strings.Cut(step, " rows=")
	rows, _, _ = strings.Cut(rows, " ")
	n, err := strconv.Atoi(rows)
	if err != nil {
		return math.MaxInt
	}
	return n
}

// FreshStatistics makes MySQL update its statistics of these tables. MySQL does so by itself, but too late for a
// test.
func FreshStatistics(t *testing.T, db *database.DB, tables ...string) {
	t.Helper()
	if db.Read != db.Write { // SQLite plans by the schema alone
		return
	}
	var said []map[string]any
	if err := db.Read.WithContext(t.Context()).Raw("ANALYZE TABLE " +
		strings.Join(tables, ", ")).Scan(&said).Error; err != nil {
		t.Fatal(err)
	}
}

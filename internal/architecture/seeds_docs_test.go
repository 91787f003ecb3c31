package architecture

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// rows returns the cells of the first table after a heading, without the table's own head.
func rows(t *testing.T, page, heading string) (list [][]string) {
	t.Helper()
	_, text, found := strings.Cut(page, "\n"+heading+"\n")
	if !found {
		t.Fatalf("no heading %q", heading)
	}
	for line := range strings.Lines(text) {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "|"):
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			list = append(list, cells)
		case len(list) > 0 || strings.HasPrefix(line, "## "):
			if len(list) < 3 {
				t.Fatalf("no table under %q", heading)
			}
			return list[2:]
		}
	}
	if len(list) < 3 {
		t.Fatalf("no table under %q", heading)
	}
	return list[2:]
}

// filled checks that each row of a table has this number of cells, none of them empty.
func filled(t *testing.T, list [][]string, cells int) {
	t.Helper()
	for _, row := range list {
		if len(row) != cells || slices.Contains(row, "") {
			t.Errorf("a row of %d cells, want %d with words in each: %q", len(row), cells, row)
		}
	}
}

// constants returns the texts of a type's constants in a folder, by their names.
func constants(t *testing.T, folder, typ string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, name := range names(t, folder+"/*.go") {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, folder, name), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 || fmt.Sprint(spec.Type) != typ {
				return true
			}
			if text, ok := spec.Values[0].(*ast.BasicLit); ok {
				if found[spec.Names[0].Name], err = strconv.Unquote(text.Value); err != nil {
					t.Fatal(err)
				}
			}
			return true
		})
	}
	if len(found) < 3 {
		t.Fatalf("%d constants of %s in %s", len(found), typ, folder)
	}
	return found
}

// TRADEOFFS.md has a table that compares polling with a queue, and the things that the page names exist.
func TestTradeoffs(t *testing.T) {
	t.Attr("proves", "S0-P13 S0-P8 S3-I12")
	page := read(t, "docs", "TRADEOFFS.md")
	weighed := rows(t, page, "## Polling a table, or a queue")
	if filled(t, weighed, 4); len(weighed) < 8 {
		t.Errorf("%d things are weighed", len(weighed))
	}
	filled(t, rows(t, page, "## What may be replaced"), 3)
	if !strings.Contains(page, "\n## No distributed lock\n") {
		t.Error("it does not say why there is no distributed lock")
	}
	for _, m := range regexp.MustCompile("`((?:internal/|lua)[a-z0-9/]*)`").FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
			t.Error(err)
		}
	}
	for _, m := range regexp.MustCompile("`([a-z_]+\\.lua)`").FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat(filepath.Join(root, "lua", m[1])); err != nil {
			t.Error(err)
		}
	}
	for _, m := range regexp.MustCompile(`\]\(([A-Za-z0-9/._-]+)`).FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat(filepath.Join(root, "docs", m[1])); err != nil {
			t.Error(err)
		}
	}
}

// The document seed's one status is two fields in tierq. The page about this uses the words of the code.
func TestTwoFields(t *testing.T) {
	t.Attr("proves", "S3-S12")
	jobs := slices.Collect(maps.Values(constants(t, "internal/job", "Status")))
	there := slices.Collect(maps.Values(constants(t, "internal/handlers", "DocStatus")))
	table := rows(t, read(t, "docs", "STATES.md"), "## Two fields: where the job is, what became of its document")
	filled(t, table, 3)
	var seed []string
	for _, row := range table {
		seed = append(seed, row[0])
		word, _, _ := strings.Cut(strings.NewReplacer(":", " ", ";", " ").Replace(row[1]), " ")
		if row[0] != "RECEIVED" && !slices.Contains(jobs, word) {
			t.Errorf("%s: %q is no status of a job", row[0], word)
		}
		if row[2] != "-" && !slices.Contains(there, row[2]) {
			t.Errorf("%s: %q is no status at an endpoint", row[0], row[2])
		}
		there = slices.DeleteFunc(there, func(s string) bool { return s == row[2] })
	}
	want := strings.Fields("CANCELLED FAILED MANAGED NOT_MANAGED PROCESSING QUEUED RECEIVED REJECTED SCHEDULED " +
		"SUBMITTED TRY_AGAIN_LATER")
	if slices.Sort(seed); !slices.Equal(seed, want) {
		t.Errorf("statuses %v, want the seed's %v", seed, want)
	}
	if len(there) > 0 {
		t.Errorf("the table has no row for %v", there)
	}
	for _, outcome := range []string{"SUBMITTED", "MANAGED", "REJECTED"} {
		if slices.Contains(jobs, outcome) {
			t.Errorf("%s is a status of jobs, too: one field says both", outcome)
		}
	}
}

// STATES.md has a row for every failure cause, with its source and its consequence. The API's own codes are on the
// API's page.
func TestCodes(t *testing.T) {
	t.Attr("proves", "S4-E5")
	table := rows(t, read(t, "docs", "STATES.md"), "## Causes")
	filled(t, table, 3)
	var listed []string
	for _, row := range table {
		listed = append(listed, strings.Trim(row[0], "`"))
	}
	slices.Sort(listed)
	if want := slices.Sorted(maps.Values(constants(t, "internal/job", "Cause"))); !slices.Equal(listed, want) {
		t.Errorf("STATES.md has the causes %v, the code %v", listed, want)
	}
	page := read(t, "docs", "API.md")
	codes := regexp.MustCompile(`&kind\{http\.Status\w+, "([A-Z_]+)"`).FindAllStringSubmatch(read(t, "internal", "httpapi",
		"errors.go"), -1)
	if len(codes) < 10 {
		t.Fatalf("%d codes", len(codes))
	}
	for _, m := range codes {
		if !strings.Contains(page, "`"+m[1]+"`") {
			t.Errorf("API.md does not name %s", m[1])
		}
	}
}

// The decisions are published with their reasons: at least the ten of the seed.
func TestDecisions(t *testing.T) {
	t.Attr("proves", "S2-P17")
	decisions := rows(t, read(t, "docs", "ARCHITECTURE.md"), "## Decisions")
	if filled(t, decisions, 2); len(decisions) < 10 {
		t.Errorf("%d decisions", len(decisions))
	}
}

// The two diagrams name the scripts and loops that move a job forward and back.
func TestDiagrams(t *testing.T) {
	t.Attr("proves", "S2-W6")
	page := read(t, "docs", "ARCHITECTURE.md")
	for heading, parts := range map[string][]string{
		"## How a job flows": {"POST /paid/submit", "admission", "submit.lua", "claim.lua", "heartbeat.lua",
			"complete.lua", "outbox", "SQL", "acknowledge.lua"},
		"## How a job comes back": {"processing:by-heartbeat", "processing:by-maxtime", "reclaim.lua", "suspects", "PENDING",
			"NEED_DISCARD", "failed_jobs"},
	} {
		_, text, _ := strings.Cut(page, heading+"\n\n```\n")
		drawing, _, closed := strings.Cut(text, "\n```\n")
		for _, part := range parts {
			if !closed || !strings.Contains(drawing, part) {
				t.Errorf("the drawing under %q lacks %s", heading, part)
			}
		}
	}
}

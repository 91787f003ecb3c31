package architecture

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

func TestImports(t *testing.T) {
	t.Attr("proves", "S0-P9 S2-C3 S4-P4")
	files := 0
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := d.Name(); name != root &&
				(base == "testdata" || base == "vendor" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")) {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		files++
		imported, err := imports(name, nil)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		for _, problem := range check(filepath.ToSlash(rel), imported) {
			t.Error(problem)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 20 {
		t.Errorf("only %d files were checked", files)
	}
}

// The module's name in the checker is that of go.mod.
func TestModule(t *testing.T) {
	text, err := os.ReadFile(root + "/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), "module "+strings.TrimSuffix(module, "/")+"\n") {
		t.Errorf("go.mod is not of %s", module)
	}
}

// The table lets a room import only job, or another room for which there is a reason.
func TestTable(t *testing.T) {
	forHandlers := []string{
		"internal/handlers", "internal/worker", "internal/push", "internal/outbound", "internal/mail", "internal/telemetry",
	}
	inSQL := []string{"internal/archive", "internal/access"}
	seen := map[string]bool{}
	for _, r := range table {
		if seen[r.dir] {
			t.Errorf("%s has two rows", r.dir)
		}
		seen[r.dir] = true
		// The sandbox wires rooms together, as app does. The public server runs the whole, as the command does.
		if r.testOnly || r.dir == "internal/app" || r.dir == "internal/sandbox" || r.dir == "cmd/tierq" || r.dir == "server" {
			continue
		}
		for _, to := range r.rooms {
			if to != job && to != failpoint && to != loops && (to != "lua" || r.dir != "internal/queue") &&
				(to != "web" && to != "client" || r.dir != "internal/pages") &&
				(to != handler || !slices.Contains(forHandlers, r.dir)) &&
				(to != database || !slices.Contains(inSQL, r.dir)) {
				t.Errorf("%s may import %s: only app joins rooms", r.dir, to)
			}
		}
	}
}

// check finds each kind of forbidden import.
func TestCheck(t *testing.T) {
	for name, tc := range map[string]struct {
		file, imports string
		want          string // part of the only problem; "" = none
	}{
		"the words": {"internal/worker/pool.go", `"context"; "github.com/tierq/tierq/internal/job"`, ""},
		"itself":    {"internal/queue/claim_test.go", `"github.com/tierq/tierq/internal/queue"`, ""},
		"two rooms": {"internal/worker/pool.go", `"github.com/tierq/tierq/internal/queue"`,
			`internal/worker/pool.go imports internal/queue: of our rooms, internal/worker may import only`},
		"two rooms in a test": {"internal/recovery/watch_test.go", `"github.com/tierq/tierq/internal/queue"`,
			"of our rooms"},
		"by another name":      {"internal/worker/pool.go", `q "github.com/tierq/tierq/internal/queue"`, "of our rooms"},
		"for its side effects": {"internal/worker/pool.go", `_ "github.com/tierq/tierq/internal/queue"`, "of our rooms"},
		"app joins": {"internal/app/run.go",
			`"github.com/tierq/tierq/internal/queue"; "github.com/tierq/tierq/internal/archive"`, ""},
		"a room knows app": {"internal/httpapi/submit.go", `"github.com/tierq/tierq/internal/app"`, "of our rooms"},
		"cmd knows a room": {"cmd/tierq/serve.go", `"github.com/tierq/tierq/internal/queue"`, "of our rooms"},
		"cmd knows app": {"cmd/tierq/serve.go", `"github.com/tierq/tierq/internal/app"; "github.com/spf13/cobra"`,
			""},
		"cobra elsewhere":       {"internal/app/run.go", `"github.com/spf13/cobra"`, "of libraries, internal/app"},
		"redis elsewhere":       {"internal/recovery/watch.go", `"github.com/redis/go-redis/v9"`, "of libraries"},
		"redis in app":          {"internal/app/external.go", `"github.com/redis/go-redis/v9"`, "of libraries"},
		"redis in app's tests":  {"internal/app/faults_test.go", `"github.com/redis/go-redis/v9"`, ""},
		"gorm elsewhere":        {"internal/httpapi/poll.go", `"gorm.io/gorm"`, "of libraries"},
		"gorm's driver at home": {"internal/database/open.go", `"gorm.io/driver/mysql"`, ""},
		"a driver next door": {"internal/archive/open.go", `"github.com/go-sql-driver/mysql"`,
			"of libraries, internal/archive"},
		"rows in SQL":            {"internal/access/keys.go", `"github.com/tierq/tierq/internal/database"`, ""},
		"SQL elsewhere":          {"internal/ledger/find.go", `"github.com/tierq/tierq/internal/database"`, "of our rooms"},
		"the database is below":  {"internal/database/open.go", `"github.com/tierq/tierq/internal/archive"`, "of our rooms"},
		"gin elsewhere":          {"internal/app/run.go", `"github.com/gin-gonic/gin"`, "of libraries"},
		"a name that begins so":  {"internal/httpapi/x.go", `"github.com/gin-gonic/gin-extra"`, "of libraries"},
		"miniredis at home":      {"internal/embedded/redis.go", `"github.com/alicebob/miniredis/v2"`, ""},
		"miniredis next door":    {"internal/app/run.go", `"github.com/alicebob/miniredis/v2"`, "of libraries"},
		"miniredis in a test":    {"internal/queue/claim_test.go", `"github.com/alicebob/miniredis/v2"`, ""},
		"lua only embeds":        {"lua/lua.go", `_ "embed"`, ""},
		"lua does more":          {"lua/lua.go", `"os"`, "of the standard library, lua may import only"},
		"job knows a library":    {"internal/job/id.go", `"github.com/google/uuid"`, "of libraries, internal/job"},
		"job knows a room":       {"internal/job/id.go", `"github.com/tierq/tierq/internal/failpoint"`, "of our rooms"},
		"handler is a leaf":      {"internal/handler/run.go", `"github.com/tierq/tierq/internal/worker"`, "of our rooms"},
		"a room has no handlers": {"internal/queue/claim.go", `"github.com/tierq/tierq/internal/handler"`, "of our rooms"},
		"tests' things":          {"internal/worker/pool.go", `"github.com/tierq/tierq/internal/testkit"`, "for tests only"},
		"tests' things in tests": {"internal/worker/pool_test.go",
			`"github.com/tierq/tierq/internal/testkit"; "go.uber.org/goleak"`, ""},
		"a test's library": {"internal/worker/pool.go", `"go.uber.org/goleak"`, "of libraries"},
		"a suite of a room": {"internal/queue/queuetest/audit.go",
			`"github.com/tierq/tierq/internal/queue"; "github.com/tierq/tierq/internal/testkit"`, ""},
		"a suite in its room": {"internal/queue/claim.go", `"github.com/tierq/tierq/internal/queue/queuetest"`,
			"for tests only"},
		"below a room": {"internal/database/migrations/all.go", `"github.com/tierq/tierq/internal/queue"`,
			"of our rooms, internal/database"},
		"a room without a row": {"internal/surprise/x.go", `"fmt"`, "no row in the import table"},
		"to a room without one": {"internal/app/run.go", `"github.com/tierq/tierq/internal/surprise"`,
			"no row in the import table"},
		"a file at the root": {"tierq.go", `"fmt"`, "no row in the import table"},
	} {
		t.Run(name, func(t *testing.T) {
			imported, err := imports(tc.file, "package x\nimport ("+tc.imports+")\n")
			if err != nil {
				t.Fatal(err)
			}
			problems := check(tc.file, imported)
			if tc.want == "" && problems == nil ||
				tc.want != "" && len(problems) == 1 && strings.Contains(problems[0], tc.want) {
				return
			}
			t.Errorf("got %q, want %q", problems, tc.want)
		})
	}
}

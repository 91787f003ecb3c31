package archive

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/tierq/tierq/internal/testkit"
)

// The models, the inserts and the migrated schema name the same columns, with the same types, keys and NULLs.
func TestModelsFitTheSchema(t *testing.T) {
	for backend, options := range map[string]func() Options{
		"sqlite":  func() Options { return Options{SQLitePath: filepath.Join(t.TempDir(), "tierq.db")} },
		"mariadb": func() Options { return Options{MySQLDSN: testkit.SharedMariaDB(t)} },
	} {
		t.Run(backend, func(t *testing.T) {
			a, err := Open(options())
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			if err := a.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, model := range []any{
				&outcomeRow{}, &resultRow{}, &failedRow{}, &attemptRow{}, &acceptedRow{}, &cancelReasonRow{}, &keyRow{},
				&apiKeyRow{}, &changeRow{}, &planRow{},
			} {
				want, table := declared(t, a.write, model)
				if diff := cmp.Diff(want, migrated(t, a.write, model)); diff != "" {
					t.Errorf("%s (-model +schema):\n%s", table, diff)
				}
			}
		})
	}
}

// describe says of a column what both sides can tell.
func describe(typ string, length int64, null, primary bool) string {
	s := strings.TrimPrefix(strings.ToLower(typ), "big") // SQLite has one kind
	if strings.HasSuffix(s, "char") {
		s += fmt.Sprintf("(%d)", length)
	}
	if primary {
		return s + " primary key"
	}
	return s + map[bool]string{true: " null", false: " not null"}[null]
}

func declared(t *testing.T, db *gorm.DB, model any) (columns map[string]string, table string) {
	t.Helper()
	stmt := &gorm.Statement{DB: db}
	if err := stmt.Parse(model); err != nil {
		t.Fatal(err)
	}
	columns = map[string]string{}
	for _, f := range stmt.Schema.Fields {
		typ, length := plainType(t, f)
		columns[f.DBName] = describe(typ, length, !f.NotNull, f.PrimaryKey)
	}
	return columns, stmt.Schema.Table
}

func plainType(t *testing.T, f *schema.Field) (string, int64) {
	t.Helper()
	typ, rest, sized := strings.Cut(f.TagSettings["TYPE"], "(")
	length := int64(0)
	if sized {
		if _, err := fmt.Sscanf(rest, "%d)", &length); err != nil {
			t.Fatalf("%s: %v", f.DBName, err)
		}
	}
	return typ, length
}

func migrated(t *testing.T, db *gorm.DB, model any) map[string]string {
	t.Helper()
	types, err := db.Migrator().ColumnTypes(model)
	if err != nil {
		t.Fatal(err)
	}
	columns := map[string]string{}
	for _, c := range types {
		length, _ := c.Length()
		null, _ := c.Nullable()
		primary, _ := c.PrimaryKey()
		columns[c.Name()] = describe(strings.TrimSuffix(strings.ToLower(c.DatabaseTypeName()), "eger"), length, null, primary)
	}
	return columns
}

// Every column of a table is inserted, but for those that the database or a requeue fills in later.
func TestInsertsNameEveryColumn(t *testing.T) {
	later := map[string]bool{
		"recorded_at": true, "requeue_requested_at": true, "requeue_request_id": true, "requeue_reason": true,
		"requeued_at": true, "requeued_run_id": true, "open_at": true, "seq": true,
	}
	a, err := Open(Options{SQLitePath: filepath.Join(t.TempDir(), "tierq.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for _, model := range []any{&outcomeRow{}, &resultRow{}, &failedRow{}, &attemptRow{}, &acceptedRow{}, &keyRow{}, &changeRow{}} {
		columns, table := declared(t, a.write, model)
		for name := range columns {
			if inserted := strings.Contains(a.inserts[table][1], "`"+name+"`"); inserted == later[name] {
				t.Errorf("%s.%s: inserted is %v", table, name, inserted)
			}
		}
	}
}

// Save would overwrite the row of another writer; AutoMigrate would change a schema that the migrations own.
func TestNoSaveNoAutoMigrate(t *testing.T) {
	t.Attr("proves", "S2-G4")
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 10 {
		t.Fatal(len(files), err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if found := forbidden(t, string(src)); found != "" {
			t.Errorf("%s calls %s", name, found)
		}
	}
	if forbidden(t, "package x\nfunc f() { db.Where(1).\n\tSave(&row) }") != "Save" {
		t.Error("a call of Save is not seen")
	}
}

func forbidden(t *testing.T, src string) (found string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "", src, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && (s.Sel.Name == "Save" || s.Sel.Name == "AutoMigrate") {
			found = s.Sel.Name
		}
		return true
	})
	return found
}

package databasetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/tierq/tierq/internal/database"
)

// FitTheSchema compares models with the migrated schema of every backend: both have the same columns, with the
// same types, keys and NULLs.
func FitTheSchema(t *testing.T, models ...any) {
	t.Helper()
	Each(t, func(t *testing.T, s *Store) {
		for _, model := range models {
			want, table := Columns(t, s.Database, model)
			if diff := cmp.Diff(want, migrated(t, s.Database.Write, model)); diff != "" {
				t.Errorf("%s (-model +schema):\n%s", table, diff)
			}
		}
	})
}

// describe returns the properties of a column that both the model and the schema give.
func describe(typ string, length int64, null, primary bool) string {
	s := strings.TrimPrefix(strings.ToLower(typ), "big") // SQLite has one kind of integer
	if strings.HasSuffix(s, "char") {
		s += fmt.Sprintf("(%d)", length)
	}
	if primary {
		return s + " primary key"
	}
	return s + map[bool]string{true: " null", false: " not null"}[null]
}

// Columns returns the columns that a model declares, by name, and its table.
func Columns(t *testing.T, db *database.DB, model any) (columns map[string]string, table string) {
	t.Helper()
	stmt := &gorm.Statement{DB: db.Write}
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

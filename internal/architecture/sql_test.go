package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// The code calls neither GORM's Save, which would overwrite another writer's row, nor AutoMigrate, which would
// change a schema that the migrations own.
func TestNoSaveNoAutoMigrate(t *testing.T) {
	t.Attr("proves", "S2-G4")
	files := 0
	for _, room := range []string{"database", "archive", "access"} {
		for _, name := range names(t, "internal/"+room+"/*.go") {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			files++
			if found := forbidden(t, read(t, "internal", room, name)); found != "" {
				t.Errorf("internal/%s/%s calls %s", room, name, found)
			}
		}
	}
	if files < 10 {
		t.Errorf("only %d files were read", files)
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

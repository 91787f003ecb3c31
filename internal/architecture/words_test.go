package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// oldWords are names that a room does not define any more, with the field's word for each. A room may use such a word
// in a sentence; it may not call a type, a function, a method, a field or a variable so.
var oldWords = map[string]map[string]string{
	"internal/job": {
		"RunID": "Incarnation", "GiveBack": "Release",
	},
	"internal/queue": {
		"RunID": "Incarnation", "RunIDs": "Incarnations", "KnownRun": "KnownIncarnation", "noteRun": "noteIncarnation",
	},
	"internal/archive": {
		"RunID": "Incarnation", "Announce": "Give", "Reopen": "Lost",
		"Adopt": "EnsureJournaled", "Expect": "RegisterPendingKeys",
	},
	"internal/ledger": {
		"RunIDs": "Incarnations", "KnownRun": "KnownIncarnation", "Letters": "DeadLetters", "Adopt": "EnsureJournaled",
		"Keep": "Give", "keep": "fulfil", "Recall": "Reconcile",
		"Reopen": "Lost", "GiveBack": "Give", "giveBack": "restoreRows",
	},
	"internal/admission": {
		"withdraw": "cancelUnclaimed", "Adopt": "EnsureJournaled", "Expect": "RegisterPendingKeys",
	},
	"internal/worker": {
		"Pulse": "Heartbeater", "lane": "batcher", "lanes": "batchers", "behind": "unacked", "owed": "unackedBytes",
		"heed": "logOutage", "shout": "logWedged", "hush": "stopClaiming", "hear": "drainWakeups",
		"bringHome": "collectLateClaims", "sortOut": "skipBacklogged",
	},
	"internal/recovery": {"AuditDesk": "AuditStore"},
	"internal/app":      {"pulse": "viewPoller"},
}

// TestOldWords holds the rooms to the field's words.
func TestOldWords(t *testing.T) {
	for room, words := range oldWords {
		err := filepath.WalkDir(filepath.Join(root, room), func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(name) != ".go" {
				return err
			}
			for _, found := range definedIn(t, name) {
				if word, old := words[found.Name]; old {
					t.Errorf("%s defines %s: say %s", strings.TrimPrefix(name, root), found.Name, word)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// definedIn are the names that a file defines.
func definedIn(t *testing.T, name string) (defined []*ast.Ident) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			defined = append(defined, n.Name)
		case *ast.TypeSpec:
			defined = append(defined, n.Name)
		case *ast.ValueSpec:
			defined = append(defined, n.Names...)
		case *ast.Field:
			defined = append(defined, n.Names...)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				defined = append(defined, identsOf(n.Lhs...)...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				defined = append(defined, identsOf(n.Key, n.Value)...)
			}
		}
		return true
	})
	return defined
}

// identsOf are the plain names among expressions.
func identsOf(all ...ast.Expr) (plain []*ast.Ident) {
	for _, e := range all {
		if name, ok := e.(*ast.Ident); ok {
			plain = append(plain, name)
		}
	}
	return plain
}

// The lint finds each kind of definition, and nothing that is only used.
func TestDefinedIn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "some.go")
	text := `package some
type Pulse interface{ beat(lane int) }
type pool struct{ owed int }
func (p *pool) heed() (behind error) {
	hush := p.owed + other.shout
	var hear, sortOut = hush, used()
	for bringHome := range hear { used(bringHome) }
	return nil
}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, name := range definedIn(t, file) {
		found = append(found, name.Name)
	}
	slices.Sort(found)
	want := []string{
		"Pulse",
		"beat",
		"behind",
		"bringHome",
		"hear",
		"heed",
		"hush",
		"lane",
		"owed",
		"p",
		"pool",
		"sortOut",
	}
	if !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
}

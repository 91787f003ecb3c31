package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// oldWords maps names that a room must not define to the field's word for each. A room may use such a word in a
// sentence, but not as the name of a type, function, method, field or variable.
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
	"internal/database": {
		"mark": "Exec", "brief": "Transaction", "unmade": "ChangedNothing", "again": "Conflict",
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
	"lua": {
		"tell": "note_event", "told": "pending_events", "heard": "listener_cache", "listened": "has_listeners",
		"loud": "events_wanted", "alarm": "note_alarm",
		"beats": "heartbeat_deadlines", "beat": "heartbeat_entries", "maxtimes": "run_deadlines", "maxtime": "run_entries",
		"first": "first_claim", "mark": "keys_complete", "about": "descriptor", "said": "ack_info", "kind": "submit_class",
		"settle": "write_counters", "look": "read_counts or audit_job", "live": "count_living", "weigh": "add_outbox_bytes",
		"count": "change_counter", "full": "is_full", "beyond": "exceeded_limit",
	},
	"internal/app": {"pulse": "viewPoller"},
}

// TestOldWords checks that the rooms use the field's words.
func TestOldWords(t *testing.T) {
	for room, words := range oldWords {
		err := filepath.WalkDir(filepath.Join(root, room), func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			var defined []string
			switch filepath.Ext(name) {
			case ".go":
				for _, found := range definedIn(t, name) {
					defined = append(defined, found.Name)
				}
			case ".lua":
				defined = definedInLua(t, name)
			}
			for _, found := range defined {
				if word, old := words[found]; old {
					t.Errorf("%s defines %s: say %s", strings.TrimPrefix(name, root), found, word)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// definedIn returns the names that a file defines.
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

// luaDefines match the places where a script defines names: locals, parameters, loops, and the arguments in its
// header.
var luaDefines = []*regexp.Regexp{
	regexp.MustCompile(`\blocal (?:function )?(\w+(?:,\s*\w+)*)`),
	regexp.MustCompile(`\bfunction ?\w*\(([^)]+)\)`),
	regexp.MustCompile(`\bfor (\w+(?:, \w+)*) (?:in|=) `),
	regexp.MustCompile(`(?m)^-- ARGV\[[^\]]*\] (\w+):`),
}

// definedInLua returns the names that a script defines.
func definedInLua(t *testing.T, name string) (defined []string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, where := range luaDefines {
		for _, m := range where.FindAllStringSubmatch(string(text), -1) {
			for word := range strings.SplitSeq(m[1], ",") {
				defined = append(defined, strings.TrimSpace(word))
			}
		}
	}
	return defined
}

// identsOf returns the plain names among expressions.
func identsOf(all ...ast.Expr) (plain []*ast.Ident) {
	for _, e := range all {
		if name, ok := e.(*ast.Ident); ok {
			plain = append(plain, name)
		}
	}
	return plain
}

// definedIn finds each kind of definition, and no name that is only used.
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

// definedInLua finds each kind of definition in a script, and no name that is only used.
func TestDefinedInLua(t *testing.T) {
	file := filepath.Join(t.TempDir(), "some.lua")
	text := `-- some: an example
-- ARGV[1] kind: what it is
-- per job (n = 2, 3, ...):
-- ARGV[n+0] about: what it is
local beats,
  maxtimes = unpack(KEYS)
local told, first = {}, used.said
local function settle(mark, live) return weigh(live) end
for look, heard in pairs(told) do count(look, heard) end
for loud = 1, #ARGV, 1 do told[loud] = function(tell) end end
redis.call('HSET', key, 'first', '1')`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	found := definedInLua(t, file)
	slices.Sort(found)
	want := strings.Fields("about beats first heard kind live look loud mark maxtimes settle tell told")
	if !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
}

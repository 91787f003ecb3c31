package architecture

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// importers returns the folders whose files, except tests, import one of these packages or a package below it.
func importers(t *testing.T, what ...string) (folders []string) {
	t.Helper()
	for _, top := range []string{"cmd", "internal", "client", "worker", "web", "docs", "lua"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			imported, err := imports(name, nil)
			if err != nil {
				return err
			}
			folder, err := filepath.Rel(root, filepath.Dir(name))
			at, known := roomOf(filepath.ToSlash(folder))
			if known && at.testOnly || slices.Contains(folders, at.dir) {
				return err
			}
			if slices.ContainsFunc(imported, func(i string) bool { return within(what, i) }) {
				folders = append(folders, at.dir)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(folders)
	return folders
}

// Only one room, and the one that wires, imports the package for the delivery of jobs; the same holds for their
// storage. If either is replaced, no other room changes, and above all no handler.
func TestDeliveryIsReplaceable(t *testing.T) {
	t.Attr("proves", "S0-P8 S3-I7 S4-P4")
	for name, c := range map[string]struct{ what, who []string }{
		"the queue":    {[]string{module + "internal/queue"}, []string{"internal/app", "internal/sandbox"}},
		"Redis":        {[]string{goRedis, module + "lua"}, []string{"internal/queue"}},
		"the archive":  {[]string{module + "internal/archive"}, []string{"internal/app"}},
		"the callers":  {[]string{module + "internal/access"}, []string{"internal/app"}},
		"the database": {[]string{module + database}, []string{"internal/access", "internal/app", "internal/archive"}},
		"SQL": {
			[]string{gorm, "database/sql"}, []string{"internal/access", "internal/archive", "internal/database"},
		},
		"SQL's drivers": {[]string{goose, mysql, sqlite}, []string{"internal/database"}},
		"the handlers":  {[]string{module + "internal/handlers"}, []string{"internal/app"}},
		"mail's way":    {[]string{mail, module + "internal/mail"}, []string{"internal/app", "internal/mail"}},
		"files' place":  {[]string{module + "internal/artifact"}, []string{"internal/app"}},
		"outgoing HTTP": {[]string{module + "internal/outbound"}, []string{"internal/app"}},
	} {
		if got := importers(t, c.what...); !slices.Equal(got, c.who) {
			t.Errorf("%s is known to %v, want %v", name, got, c.who)
		}
	}
}

// A program that submits jobs needs one dependency: the client requires no other module, and imports nothing of
// the server.
func TestClientIsOneDependency(t *testing.T) {
	t.Attr("proves", "S1-P6 S3-I15")
	alone(t, "client", 20)
}

// The same for a program that runs jobs.
func TestWorkerIsOneDependency(t *testing.T) { alone(t, "worker", 7) }

// alone checks that the module in a folder requires no other module, and imports none. It has at least so many files.
func alone(t *testing.T, folder string, least int) {
	t.Helper()
	mod := read(t, folder, "go.mod")
	for line := range strings.Lines(mod) {
		if word, _, _ := strings.Cut(strings.TrimSpace(line), " "); word != "" && word != "module" && word != "go" {
			t.Errorf("%s/go.mod says %q: a program that requires it would have it in the module graph", folder, line)
		}
	}
	files := 0
	err := filepath.WalkDir(filepath.Join(root, folder), func(name string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(name) != ".go" {
			return err
		}
		files++
		imported, err := imports(name, nil)
		if err != nil {
			return err
		}
		for _, i := range imported {
			first, _, _ := strings.Cut(i, "/")
			if strings.Contains(first, ".") && i != module+folder && !strings.HasPrefix(i, module+folder+"/") {
				t.Errorf("%s imports %s; a test, too, would make it a requirement", name, i)
			}
		}
		return nil
	})
	if err != nil || files < least {
		t.Errorf("%d files, %v", files, err)
	}
}

// A new job type is a file with its handler and one line of registration: neither the pool nor the API names a
// type.
func TestNewTypeIsOneHandler(t *testing.T) {
	t.Attr("proves", "S1-P5 S1-P10")
	types := []string{`"SIMULATION"`, `"SEND_EMAIL"`, `"EMAIL"`, `"SEND_WEBHOOK"`, `"GENERATE_PDF"`, `"REPORT"`,
		`"FORWARD_DOCUMENT"`}
	registered := ""
	for _, name := range names(t, "internal/handlers/*.go") {
		registered += read(t, "internal", "handlers", name)
	}
	for _, typ := range types {
		if !strings.Contains(registered, typ) {
			t.Errorf("no handler for %s", typ)
		}
		for _, room := range []string{
			"worker", "queue", "database", "archive", "access", "recovery", "admission", "ledger", "events",
		} {
			for _, name := range names(t, "internal/"+room+"/*.go") {
				if !strings.HasSuffix(name, "_test.go") && strings.Contains(read(t, "internal", room, name), typ) {
					t.Errorf("internal/%s/%s names the type %s", room, name, typ)
				}
			}
		}
	}
}

package conformance

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// mutation is a bug that is put into a copy of a library. Some rows of the table have to notice it.
type mutation struct {
	language, file string
	old, new       string
	rows           []string
}

// libraryMutations change a text that each library has. A text that is no longer there fails the test: then put the bug
// where the library does this now.
var libraryMutations = []mutation{
	// A text of megabytes is not cut.
	{"go", "guard.go", "mostText    = 4096", "mostText    = 4096 << 10", []string{"THROW/HUGE"}},
	{"node", "lib/outcome.js", "MOST_TEXT = 4096;", "MOST_TEXT = 4096 << 10;", []string{"THROW/HUGE"}},
	{"python", "tierq/texts.py", "MOST_TEXT = 4096 ", "MOST_TEXT = 4096 << 10 ", []string{"THROW/HUGE"}},
	// A wait is not bounded.
	{"go", "says.go", "min(max(d, 0), most)", "max(d, 0)", []string{"RETRY_AFTER/DAYS"}},
	{"node", "lib/outcome.js", "MOST_WAIT = 86_400;", "MOST_WAIT = Infinity;", []string{"RETRY_AFTER/DAYS"}},
	{"python", "tierq/report.py", "MOST_LATER = 31_536_000", "MOST_LATER = 31_536_000_000", []string{"LATER/YEARS"}},
	// An attempt whose time was over fails like any other.
	{"go", "says.go", `f.Type = "MAX_TIME_EXCEEDED"`, `f.Type = ""`, []string{"OVERTIME/PLAIN"}},
	{"node", "lib/outcome.js", "? 'MAX_TIME_EXCEEDED' :", "? undefined :", []string{"OVERTIME/PLAIN"}},
	{"python", "tierq/report.py", "if cause is MaxTime:", "if cause is Stopping:", []string{"OVERTIME/PLAIN"}},
	// Half a pair of surrogates goes out.
	{"go", "json.go", `copy(text[i+2:], "fffd")`, `_ = text`, []string{"RETURN/RAW_SURROGATES"}},
	{"node", "lib/text.js", `(lone ? '\ufffd' : escape)`, `escape`, []string{"RETURN/SURROGATES"}},
	{"python", "tierq/texts.py", `return text.encode("utf-16-le"`, `return text or text.encode("utf-16-le"`,
		[]string{"RETURN/SURROGATES"}},
	// What a hostile value throws leaves the guard.
	{"go", "guard.go", "defer func() { _ = recover() }()", "", []string{"THROW/UNWRAP_PANICS"}},
	{"node", "lib/text.js", "  } catch {\n    return undefined;", "  } catch (e) {\n    throw e;",
		[]string{"THROW/STACK_THROWS"}},
	{"python", "tierq/report.py", "except BaseException as e:  # the result's own code", "except TypeError as e:  # the",
		[]string{"RETURN/MARSHALLER_FAILS"}},
	// A slot is not freed.
	{"go", "attempt.go", "	w.free++\n", "", []string{"RETURN/JSON", "RETURN/NOTHING"}},
	{"node", "lib/core.js", "    this.free++;\n", "", []string{"RETURN/JSON", "RETURN/NOTHING"}},
	{"python", "tierq/worker.py", "            s.free += 1\n", "", []string{"RETURN/JSON", "RETURN/NOTHING"}},
}

// Each bug in a copy of a library is noticed by the rows that are about it, and these rows are sound without it.
func TestMutationsOfLibraries(t *testing.T) {
	t.Parallel()
	const most = 12 * time.Second
	for language := range languages {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			var rows []string
			for _, m := range libraryMutations {
				if m.language == language {
					rows = append(rows, m.rows...)
					t.Run(m.rows[0], func(t *testing.T) { m.noticed(t, most) })
				}
			}
			for _, problem := range runTable(t, programOf(t, language), named(table(language), rows...), 4*most) {
				t.Error("without a mutation: ", problem)
			}
		})
	}
}

// noticed runs the rows of a mutation with the changed library.
func (m mutation) noticed(t *testing.T, most time.Duration) {
	t.Parallel()
	dir, program := t.TempDir(), t.TempDir()
	m.copyLibrary(t, filepath.Join(repository(t), languages[m.language]), dir)
	rows := named(table(m.language), m.rows...)
	if len(rows) != len(m.rows) {
		t.Fatalf("the table lacks one of %s", m.rows)
	}
	problems := runTable(t, makeProgram(t, m.language, dir, program), rows, most)
	if len(problems) == 0 {
		t.Errorf("nobody notices %q in place of %q in %s", m.new, m.old, m.file)
	}
	for _, problem := range problems {
		t.Logf("noticed: %.300s", problem)
	}
}

// copyLibrary copies a library, and puts the bug in.
func (m mutation) copyLibrary(t *testing.T, from, to string) {
	t.Helper()
	skipped, changed := []string{"node_modules", "__pycache__", "tests", "test"}, false
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(from, path)
		switch {
		case d.IsDir() && slices.Contains(skipped, d.Name()):
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		case strings.HasSuffix(name, "_test.go"):
			return nil
		}
		copyFile(t, path, filepath.Join(to, name), func(text string) string {
			if filepath.ToSlash(name) != m.file {
				return text
			}
			changed = strings.Contains(text, m.old)
			return strings.Replace(text, m.old, m.new, 1)
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !changed {
		t.Fatalf("%s has no longer the text %q", m.file, m.old)
	}
}

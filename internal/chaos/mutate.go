package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/tierq/tierq/internal/chaos/check"
	"github.com/tierq/tierq/internal/testkit"
)

// rounds is in how many runs a bug is looked for, each with another seed.
const rounds = 6

// caught is a row of the mutation table.
type caught struct {
	name string
	by   check.Violation // the first violation of an invariant that was wanted
	all  string          // all invariants that objected
	took time.Duration   // from the first submit of the first round
	runs int
	err  error
}

// Mutations seeds every bug whose name matches only into a copy of the tree; nil matches all. It builds each copy
// and runs it under the faults that reveal the bug until the checker objects. Mutations prints the table to out. A
// bug that stays hidden is an error. Bugs of walks in knownRed are left out, except those that red names.
func Mutations(ctx context.Context, out io.Writer, only *regexp.Regexp, red ...*regexp.Regexp) error {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "tierq-mutations-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer os.RemoveAll(dir)
	mutations := slices.Clone(mutations)
	rows := make([]caught, len(mutations))
	var group sync.WaitGroup
	two := make(chan struct{}, 2) // at most two at a time: each is a whole cluster
	for i := range mutations {
		if only != nil && !only.MatchString(mutations[i].name) {
			continue
		}
		for _, named := range red {
			mutations[i].red = named
		}
		if w := mutations[i].walk; w != "" && !(&Options{KnownRed: mutations[i].red}).walks(w) {
			fmt.Fprintf(out, "%s: not looked for, known red: %s\n", mutations[i].name, w)
			continue
		}
		group.Go(func() {
			two <- struct{}{}
			defer func() { <-two }()
			rows[i] = mutations[i].hunt(ctx, root, filepath.Join(dir, fmt.Sprint(i)))
			fmt.Fprintf(out, "%s: %s %s\n", rows[i].name, rows[i].all, rows[i].took.Round(time.Second))
		})
	}
	group.Wait()
	return errors.Join(table(out, rows)...)
}

func table(out io.Writer, rows []caught) (errs []error) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "seeded bug\tcaught by\tafter\tin round\tthe first violation")
	for _, r := range rows {
		switch {
		case r.name == "":
			continue
		case r.err != nil:
			fmt.Fprintf(t, "%s\tnothing\t%s\t%d\t%v\n", r.name, r.took.Round(time.Second), r.runs, firstLine(r.err.Error()))
			errs = append(errs, fmt.Errorf("%s: %w", r.name, r.err))
		case r.all == "":
			fmt.Fprintf(t, "%s\tno rule objected\t%s\t%d\t\n", r.name, r.took.Round(time.Second), r.runs)
		default:
			fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\n", r.name, r.all, r.took.Round(time.Second), r.runs, firstLine(r.by.String()))
		}
	}
	_ = t.Flush()
	return errs
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line[:min(len(line), 160)]
}

// hunt looks for one bug until an invariant that is wanted objects or all rounds are over.
func (m *mutation) hunt(ctx context.Context, root, dir string) caught {
	c := caught{name: m.name}
	changed, err := m.apply(root)
	if err != nil {
		c.err = err
		return c
	}
	binary, err := m.build(ctx, changed, root, dir)
	if err != nil {
		c.err = err
		return c
	}
	scripts := map[string]string{}
	for file, text := range changed {
		if name, ok := strings.CutPrefix(file, "lua/"); ok {
			scripts[strings.TrimSuffix(name, ".lua")] = text
		}
	}
	began := time.Now()
	rounds := rounds
	var others []check.Violation // violations of invariants that are not wanted
	if m.name == control {
		rounds = 1
	}
	for c.runs = 1; c.runs <= rounds; c.runs++ {
		o := m.options(uint64(c.runs))
		o.Binary, o.scripts = binary, scripts
		report, err := Run(ctx, o)
		c.took = time.Since(began)
		if err != nil {
			c.err = err
			return c
		}
		if len(report.Violations) > 0 && m.name == control {
			c.err = fmt.Errorf("the tree as it is: %s", report.Violations[0])
			return c
		}
		if by := m.caught(report.Violations); by != nil {
			c.by, c.all = *by, names(report.Violations)
			return c
		}
		others = append(others, report.Violations...)
	}
	c.runs--
	if m.name != control {
		c.err = fmt.Errorf("none of %s objected; others: %q", m.want, names(others))
	}
	return c
}

// caught returns the first violation of an invariant that is wanted, or nil.
func (m *mutation) caught(all []check.Violation) *check.Violation {
	for i := range all {
		if slices.Contains(strings.Fields(m.want), all[i].Invariant) {
			return &all[i]
		}
	}
	return nil
}

// names returns the violated invariants, each once.
func names(all []check.Violation) string {
	var list []string
	for _, v := range all {
		if !slices.Contains(list, v.Invariant) {
			list = append(list, v.Invariant)
		}
	}
	return strings.Join(list, " ")
}

// build builds tierq with the bug. The tree itself stays as it is: with an overlay, the compiler reads changed
// copies instead of the files.
func (m *mutation) build(ctx context.Context, changed map[string]string, root, dir string) (binary string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make a folder: %w", err)
	}
	replace := map[string]string{}
	for file, text := range changed {
		copied := filepath.Join(dir, filepath.Base(file))
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("write a copy: %w", err)
		}
		replace[filepath.Join(root, file)] = copied
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", fmt.Errorf("write the overlay: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600); err != nil {
		return "", fmt.Errorf("write the overlay: %w", err)
	}
	binary = filepath.Join(dir, "tierq")
	if err := testkit.BuildChanged(ctx, binary, filepath.Join(dir, "overlay.json"), "failpoint"); err != nil {
		return "", err
	}
	return binary, nil
}

// apply returns the changed files by their path below root. A text that the file does not have exactly once is an
// error: the code has changed, and the bug has to be changed with it.
func (m *mutation) apply(root string) (map[string]string, error) {
	changed := map[string]string{}
	for _, e := range m.edits {
		text, ok := changed[e.file]
		if !ok {
			b, err := os.ReadFile(filepath.Join(root, e.file))
			if err != nil {
				return nil, fmt.Errorf("read the tree: %w", err)
			}
			text = string(b)
		}
		if n := strings.Count(text, e.old); n != 1 {
			return nil, fmt.Errorf("%s has %q %d times, not once", e.file, e.old, n)
		}
		changed[e.file] = strings.Replace(text, e.old, e.new, 1)
	}
	return changed, nil
}

func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

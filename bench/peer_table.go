package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// report prints who took part, one table of medians, every run with tierq beside it, and the goals.
func (f *field) report(out io.Writer, t *table) {
	fmt.Fprintln(out, "\n  Who takes part:")
	for _, about := range f.abouts {
		fmt.Fprintln(out, "    "+about)
	}
	f.medians(out, t)
	f.runs(out, t)
	fmt.Fprintln(out, "\n  Goals (docs/speed/BENCH.md has their reasons):")
	for _, g := range goals {
		fmt.Fprintln(out, "    "+g.verdict(t, f.names()))
	}
}

func (f *field) names() []string {
	names := make([]string, len(f.in))
	for i, c := range f.in {
		names[i] = c.name()
	}
	return names
}

// medians is the table as Markdown: a row per measure, a column per contender.
func (f *field) medians(out io.Writer, t *table) {
	names := f.names()
	fmt.Fprintf(out, "\n  | median of %d | %s |\n  |---%s|\n", f.l.runs, strings.Join(names, " | "),
		strings.Repeat("|---", len(names)))
	for _, m := range disciplines {
		for _, n := range m.names {
			row := []string{n.name + ", " + n.unit}
			for _, name := range names {
				v := "-"
				if len(t.values[cell(n.name, name)]) > 0 {
					v = number(t.median(cell(n.name, name)))
				}
				row = append(row, v)
			}
			fmt.Fprintf(out, "  | %s |\n", strings.Join(row, " | "))
		}
	}
}

// runs has every run, and what tierq did beside it in the same run.
func (f *field) runs(out io.Writer, t *table) {
	for _, m := range disciplines {
		for _, n := range m.names {
			fmt.Fprintf(out, "\n  %s, %s\n", n.name, n.unit)
			for _, c := range f.in {
				values := t.values[cell(n.name, c.name())]
				if len(values) == 0 {
					continue
				}
				line := fmt.Sprintf("    %-22s %10s   runs: %s", c.name(), number(t.median(cell(n.name, c.name()))),
					numbers(values))
				if r := ratios(t, n.name, tierqName, c.name()); len(r) > 0 && c.name() != tierqName {
					line += fmt.Sprintf("   tierq beside it: %s x (%s)", number(middle(r)), numbers(r))
				}
				if n.name == drainRate && len(f.settings[c.name()]) > 0 {
					line += "   with " + strings.Join(f.settings[c.name()], ", ")
				}
				fmt.Fprintln(out, line)
			}
		}
	}
}

const tierqName = "tierq"

// ratios are those of one contender to another, run by run.
func ratios(t *table, measure, of, to string) []float64 {
	a, b := t.values[cell(measure, of)], t.values[cell(measure, to)]
	if len(a) != len(b) {
		return nil
	}
	r := make([]float64, len(a))
	for i := range a {
		r[i] = a[i] / b[i]
	}
	return r
}

// middle is the median; of an even number the higher middle one.
func middle(values []float64) float64 {
	v := slices.Clone(values)
	slices.Sort(v)
	return v[len(v)/2]
}

func numbers(values []float64) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = number(v)
	}
	return strings.Join(texts, " ")
}

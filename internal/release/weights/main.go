// Command weights writes the cost of each library into docs/DEPENDENCIES.md: `make weights`. It compiles all of
// tierq into an empty build cache, which takes some minutes.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierq/tierq/internal/release"
)

const (
	page  = "docs/DEPENDENCIES.md"
	begin = "<!-- make weights writes from here -->\n"
	end   = "<!-- to here -->\n"
)

func main() {
	if err := work(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "weights:", err)
		os.Exit(1)
	}
}

func work(ctx context.Context) error {
	cpu := flag.Bool("cpu", true, "compile everything into an empty build cache, to say how long that takes")
	flag.Parse()
	all, err := release.Weights(ctx, ".", *cpu)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return errors.New(page + " has lost its marks")
	}
	return os.WriteFile(page, []byte(before+begin+table(all)+end+after), 0o644)
}

func table(all []release.Weight) string {
	var b strings.Builder
	var sum release.Weight
	slices.SortFunc(all, func(x, y release.Weight) int {
		return cmp.Or(-cmp.Compare(x.Bytes, y.Bytes), strings.Compare(x.Module, y.Module))
	})
	for _, w := range all {
		sum.Packages, sum.Bytes, sum.CPU = sum.Packages+w.Packages, sum.Bytes+w.Bytes, sum.CPU+w.CPU
	}
	fmt.Fprintf(
		&b,
		"%d packages, %d MB of module cache, %s CPU seconds of compiling without a build cache, linking apart.\n\n",
		sum.Packages,
		sum.Bytes>>20,
		seconds(sum.CPU),
	)
	b.WriteString("| module | asked for by | packages | MB | CPU s |\n|---|---|---|---|---|\n")
	for _, w := range all {
		who := "another"
		if w.Direct {
			who = "us"
		}
		fmt.Fprintf(
			&b,
			"| %s | %s | %d | %.1f | %s |\n",
			w.Module,
			who,
			w.Packages,
			float64(w.Bytes)/(1<<20),
			seconds(w.CPU),
		)
	}
	return b.String()
}

// seconds formats a duration in seconds; "-" if it was not measured.
func seconds(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return strconv.FormatFloat(d.Seconds(), 'f', 1, 64)
}

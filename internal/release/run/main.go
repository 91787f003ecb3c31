// Command run makes the files of a release: `make release VERSION=v0.1.0`. It builds all targets one after the
// other, and writes the binaries, the list of parts of each, and SHA256SUMS to ./dist.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/tierq/tierq/internal/release"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := work(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func work(ctx context.Context) error {
	version := flag.String("version", "", "the version, as tierq version will say it")
	out := flag.String("out", "dist", "the folder for the files; what is in it goes")
	only := flag.String("only", "", "a part of the targets' names: linux, arm64, linux_amd64; empty: all")
	flag.Parse()
	if err := release.CheckVersion(*version); err != nil {
		return err
	}
	if err := os.RemoveAll(*out); err != nil {
		return err
	}
	var files []string
	for _, t := range release.Targets {
		if !strings.Contains(t.String(), *only) {
			continue
		}
		made, err := release.Build(ctx, ".", *out, *version, t)
		if err != nil {
			return err
		}
		fmt.Println(made[0])
		files = append(files, made...)
	}
	return release.Sums(*out, files)
}

// Command run attacks a server. `make attack` starts a server of its own with its stores. `make attack ARGS="-url
// http://127.0.0.1:8080 -key tq_..."` attacks a server that runs on this machine, with an administrator's key. It
// prints what was tried and exits with 1 if any attack succeeded.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"

	"github.com/tierq/tierq/internal/attack"
	"github.com/tierq/tierq/internal/testkit"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	broken, err := work(ctx, os.Args[1:])
	stop()
	testkit.StopShared()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
	}
	if err != nil || broken > 0 {
		os.Exit(1)
	}
}

func work(ctx context.Context, args []string) (broken int, err error) {
	flags := flag.NewFlagSet("attack", flag.ContinueOnError)
	url := flags.String("url", "", "a server that runs on this machine; none: one of our own is started")
	key := flags.String("key", os.Getenv("TIERQ_TOKEN"), "an administrator's key of that server; also TIERQ_TOKEN")
	only := flags.String("run", "", "a regular expression: only the attacks whose id it matches")
	if err := flags.Parse(args); err != nil {
		return 0, err
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return 0, fmt.Errorf("-run: %w", err)
	}
	target, leave, err := aim(ctx, *url, *key)
	defer leave()
	if err != nil {
		return 0, err
	}
	results := target.Sweep(ctx, func(a attack.Attack) bool { return wanted.MatchString(a.ID) }, func(a attack.Attack) {
		fmt.Fprintf(os.Stderr, "%s %s\n", a.ID, a.What)
	})
	return attack.Table(os.Stdout, results), ctx.Err()
}

func aim(ctx context.Context, url, key string) (*attack.Target, func(), error) {
	if url == "" {
		return attack.Own(ctx)
	}
	if key == "" {
		return nil, func() {}, errors.New("-url wants -key, an administrator's key of that server")
	}
	t, err := attack.Aim(ctx, url, key)
	return t, func() {
		if t != nil {
			t.Leave(context.WithoutCancel(ctx))
		}
	}, err
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/tierq/tierq/client"
)

const defaultServer = "http://127.0.0.1:8080"

// The client's retries for a waiting person: a Retry-After longer than lastRetry is reported instead of waited
// for.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second
	tries      = 5
)

// globals holds the flags of every command that talks to a server.
type globals struct {
	server, token, output string
	timeout               time.Duration
	noColor               bool
}

func (g *globals) flags() *pflag.FlagSet {
	f := pflag.NewFlagSet("global", pflag.ContinueOnError)
	f.StringVar(&g.server, "server", "", "`URL` of the server [TIERQ_URL] (default "+defaultServer+")")
	f.StringVar(&g.token, "token", "", "API `key` [TIERQ_TOKEN]")
	f.StringVarP(&g.output, "output", "o", "table", "`format` of what is printed: "+strings.Join(formats, ", "))
	durationVar(f, &g.timeout, "timeout", 0, "give up after this `time` (code 4): 30s, 2m; a bare number is seconds")
	f.BoolVar(&g.noColor, "no-color", false, "no colours [NO_COLOR]; there are none but on a terminal")
	return f
}

// session is one run of a command that talks to a server.
type session struct {
	program
	*output
	client *client.Client
	server string
}

// talk turns a function that talks to a server into a command's RunE. It gives errors their exit codes, see
// exit.go. A signal ends the command at once.
func (p program) talk(run func(ctx context.Context, s *session, args []string) error,
	opts ...client.Option) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s, err := p.open(opts)
		if err != nil {
			return err
		}
		defer s.client.Close()
		err = interruptible(cmd.Context(), func(ctx context.Context) error {
			if p.global.timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, p.global.timeout)
				defer cancel()
			}
			return run(ctx, s, args)
		})
		return s.ended(err)
	}
}

func (p program) open(opts []client.Option) (*session, error) {
	g := p.global
	if !slices.Contains(formats, g.output) {
		return nil, fmt.Errorf("--output %q is none of %s", g.output, strings.Join(formats, ", "))
	}
	if g.timeout < 0 {
		return nil, errors.New("--timeout is negative")
	}
	server, err := readServer(cmp.Or(g.server, lookup(p.environ, "TIERQ_URL"), defaultServer))
	if err != nil {
		return nil, err
	}
	token := cmp.Or(g.token, lookup(p.environ, "TIERQ_TOKEN"))
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the token (--token, TIERQ_TOKEN) is not visible ASCII")
	}
	if p.now == nil {
		p.now = time.Now
	}
	opts = append([]client.Option{
		client.WithToken(token), client.WithUserAgent("tierq-cli/" + clean(buildVersion())),
		client.WithBackoff(firstRetry, lastRetry),
		client.WithTries(tries),
	}, opts...)
	color := !g.noColor && lookup(p.environ, "NO_COLOR") == "" && p.isTTY(p.stdout)
	return &session{
		program: p, output: &output{w: p.stdout, format: g.output, color: color, clock: p.now},
		client: client.New(server, opts...), server: server,
	}, nil
}

// readServer reads the address of a server. Without a scheme it takes http. No error shows a password.
func readServer(text string) (string, error) {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return "", errors.New("the server (--server, TIERQ_URL) must look like http://host:port")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("the server (--server, TIERQ_URL) must hold no user, password, query or fragment; the API " +
			"key is --token or TIERQ_TOKEN")
	}
	return strings.TrimRight(u.String(), "/"), nil
}

func (p program) isTTY(stream any) bool { return p.tty != nil && p.tty(stream) }

// onTerminal reports whether a stream is a terminal.
func onTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// say prints a message to standard error, because standard output is for data.
func (s *session) say(format string, a ...any) {
	fmt.Fprintln(s.stderr, clean(fmt.Sprintf(format, a...)))
}

// hint is say for people only: without a terminal it prints nothing.
func (s *session) hint(format string, a ...any) {
	if s.isTTY(s.stderr) {
		s.say(format, a...)
	}
}

// stopped is the end by a signal. It prints no message.
type stopped struct{ code int }

func (stopped) Error() string { return "stopped by a signal" }

// cleanUp is the time in which an interrupted command may tidy the terminal and its files.
const cleanUp = 250 * time.Millisecond

// interruptible runs a command until it ends or a signal comes. It does not wait for a command that ignores its
// context, such as a read from a terminal: that goroutine ends with the process.
func interruptible(parent context.Context, run func(context.Context) error) error {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = run(ctx)
	}()
	select {
	case <-done:
		return err
	case sig := <-signals:
		cancel()
		select {
		case <-done:
		case <-time.After(cleanUp):
		}
		return stopped{exitCode(sig)}
	}
}

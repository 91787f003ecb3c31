package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tierq/tierq/internal/app"
	"github.com/tierq/tierq/internal/config"
)

func (p program) serveCommand(use string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   use,
		Short: "Run the server (what tierq does without a command)",
		Long: "Run the server.\n\nWithout settings everything lives inside the process (embedded mode). REDIS_URL and " +
			"MYSQL_DSN set: external mode.\n" +
			"Flags override the environment, which overrides .env, which overrides the defaults.",
	}
	if use == "serve" {
		cmd.Args = noArgs // for the root command, cobra refuses an unknown word and suggests a command
	}
	settings := settingFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := config.Load(p.environ, p.dotenv, settings())
		if err != nil {
			return err
		}
		if _, chosen := os.LookupEnv("GOGC"); !chosen {
			boundGarbage()
		}
		ctx, stop := stoppable(cmd.Context(), os.Exit)
		defer stop()
		quiet, unhear := quietSignal()
		defer unhear()
		log := app.NewLogger(c, p.stderr)
		slog.SetDefault(log) // the logger of handlers
		if err := p.serve(ctx, c, app.Options{
			Version: buildVersion(), Out: p.stdout, Log: log, Quiet: quiet,
		}); err != nil {
			return failure{err}
		}
		return nil
	}
	return cmd
}

// settingFlags adds a flag for each setting. It returns a function that returns the used flags' values, by setting
// name.
func settingFlags(flags *pflag.FlagSet) func() map[string]string {
	flags.SortFlags = false      // the table's order matters
	names := map[string]string{} // flag -> setting
	add := func(flag, name, wants, usage string) {
		names[flag] = name
		flags.Var(&settingFlag{wants: wants}, flag, usage)
	}
	for _, s := range config.Settings() {
		usage := s.Usage() + " [" + s.Name + "]"
		if s.Default != "" {
			usage += " (default " + s.Default + ")"
		}
		add(s.Flag, s.Name, wanted(s), usage)
		if s.Default == "off" {
			flags.Lookup(s.Flag).NoOptDefVal = "on" // --insecure alone means on
		}
		if s.Secret {
			add(s.Flag+"-file", s.Name+"_FILE", "path", "file that holds "+s.Name)
		}
	}
	return func() map[string]string {
		used := map[string]string{}
		flags.Visit(func(f *pflag.Flag) {
			if name, ok := names[f.Name]; ok {
				used[name] = f.Value.String()
			}
		})
		return used
	}
}

// settingFlag is the text of a setting's flag, which config reads. wants is the value's name in the help.
type settingFlag struct{ text, wants string }

func (s *settingFlag) Set(text string) error { s.text = text; return nil }
func (s *settingFlag) String() string        { return s.text }
func (s *settingFlag) Type() string          { return s.wants }

// wanted returns the name of a setting's value for the help.
func wanted(s config.Setting) string {
	_, notTime := time.ParseDuration(s.Max)
	_, notNumber := strconv.Atoi(s.Max)
	switch {
	case s.Default == "on" || s.Default == "off":
		return "on|off"
	case s.Max != "" && notTime == nil:
		return "time"
	case s.Max != "" && notNumber == nil:
		return "n"
	case s.Max != "":
		return "size"
	}
	for _, ending := range [][2]string{
		{"_URL", "URL"}, {"_ENDPOINT", "URL"}, {"_DSN", "DSN"}, {"_ADDR", "host:port"}, {"_DIR", "folder"}, {"_FILE", "path"},
		{"_KEY", "key"}, {"_SECRET", "secret"}, {"_ALLOW", "networks"}, {"_PROXIES", "networks"}, {"_ROLES", "roles"},
		{"_REDACT", "members"}, {"_LEVEL", "level"}, {"_FORMAT", "format"},
	} {
		if strings.HasSuffix(s.Name, ending[0]) {
			return ending[1]
		}
	}
	return "text"
}

// stoppable returns a context that the first SIGINT or SIGTERM cancels, so that the server drains. The second
// signal exits at once, with the exit code that a shell expects for it.
func stoppable(parent context.Context, exit func(code int)) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		stops := 0
		for {
			select {
			case <-done:
				return
			case s := <-signals:
				cancel()
				if stops++; stops > 1 {
					exit(exitCode(s))
				}
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel()
	}
}

func exitCode(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return 1
}

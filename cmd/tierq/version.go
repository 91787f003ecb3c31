package main

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierq/tierq/client"
)

// version is set by the build: -ldflags "-X main.version=v1.2.3".
var version string

// buildVersion is what the build said, else the module's version (go install), else dev.
func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "dev"
}

type versionInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func readVersion() versionInfo {
	v := versionInfo{Version: buildVersion(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Commit = s.Value
			}
		}
	}
	return v
}

// versions are this program's and the server's.
type versions struct {
	versionInfo
	Server *serverVersion `json:"server,omitempty"`
}

type serverVersion struct {
	URL      string   `json:"url"`
	Status   string   `json:"status"`             // UP, DEGRADED or OUT_OF_SERVICE
	Versions []string `json:"versions,omitempty"` // of its workers; more than one while it is being renewed
}

// versionPatience is how long a server may take to tell its version: it is not the point of the command.
const versionPatience = time.Second

func (p program) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version, and the server's if it answers", Args: noArgs,
		Long: "Print the version, and the server's if it answers within a second: that of its workers. No server is no error.",
	}
	asked := cmd.Flags().Bool("json", false, "print version, commit, Go and platform as JSON")
	alone := cmd.Flags().Bool("client", false, "print this program's version only")
	cmd.RunE = p.talk(func(ctx context.Context, s *session, _ []string) error {
		v := versions{versionInfo: readVersion()}
		if !*alone {
			v.Server = s.serverVersion(ctx)
			if named := s.global.server != "" || lookup(s.environ, "TIERQ_URL") != ""; named && v.Server == nil {
				s.say("no answer from %s", s.server)
			}
		}
		if *asked {
			return json.NewEncoder(s.stdout).Encode(v)
		}
		if !s.readable() && s.format != asName {
			return s.document(v)
		}
		text := fmt.Sprintf("tierq %s (%s, %s)", v.Version, v.Go, v.Platform)
		if v.Server != nil {
			text += fmt.Sprintf("\nserver %s (%s, %s)", dash(strings.Join(v.Server.Versions, ", ")), v.Server.URL, v.Server.Status)
		}
		for line := range strings.Lines(text) {
			if err := s.line(strings.TrimSpace(line)); err != nil {
				return err
			}
		}
		return nil
	}, client.WithTries(1))
	return cmd
}

// serverVersion is nil if no server answers. One that does not let this caller see its workers has no versions.
func (s *session) serverVersion(ctx context.Context) *serverVersion {
	ctx, cancel := context.WithTimeout(ctx, versionPatience)
	defer cancel()
	ready, err := s.client.Ready(ctx)
	if err != nil {
		return nil
	}
	v := &serverVersion{URL: s.server, Status: ready.Status}
	if st, err := s.client.Stats(ctx); err == nil {
		for _, w := range st.Workers {
			v.Versions = append(v.Versions, w.Version)
		}
	}
	slices.Sort(v.Versions)
	v.Versions = slices.Compact(v.Versions)
	return v
}

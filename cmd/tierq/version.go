package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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

// buildVersion returns the version that the build set, else the module's version (go install), else dev.
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

// text returns the version on one line.
func (v versionInfo) text() string {
	return fmt.Sprintf("tierq %s (%s, %s)", v.Version, v.Go, v.Platform)
}

// versions are the versions of this program and of the server.
type versions struct {
	versionInfo
	Server *serverVersion `json:"server,omitempty"`
}

type serverVersion struct {
	URL      string   `json:"url"`
	Status   string   `json:"status"`             // UP, DEGRADED or OUT_OF_SERVICE
	Versions []string `json:"versions,omitempty"` // of its workers; several during an upgrade
}

// versionPatience limits the wait for the server's version, which is not the command's main purpose.
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
			var err error
			v.Server, err = s.serverVersion(ctx)
			named := s.global.server != "" || lookup(s.environ, "TIERQ_URL") != ""
			switch e, refused := errors.AsType[*client.Error](err); {
			case refused && stranger(e):
				s.say("%s", notTierq(s.server))
			case err != nil && named:
				s.say("no answer from %s", s.server)
			}
		}
		if *asked {
			s.format = asNDJSON
		}
		if !s.readable() && s.format != asName {
			return s.document(v)
		}
		if err := s.line(v.text()); err != nil || v.Server == nil {
			return err
		}
		workers := dash(strings.Join(v.Server.Versions, ", "))
		return s.line(fmt.Sprintf("server %s (%s, %s)", workers, v.Server.URL, v.Server.Status))
	}, client.WithTries(1))
	return cmd
}

// serverVersion returns nil and an error if no tierq server answers. If this caller may not see the server's
// workers, Versions is empty.
func (s *session) serverVersion(ctx context.Context) (*serverVersion, error) {
	ctx, cancel := context.WithTimeout(ctx, versionPatience)
	defer cancel()
	ready, err := s.ready(ctx)
	if err != nil {
		return nil, err
	}
	v := &serverVersion{URL: s.server, Status: ready.Status}
	if st, err := s.client.Stats(ctx); err == nil {
		for _, w := range st.Workers {
			v.Versions = append(v.Versions, w.Version)
		}
	}
	slices.Sort(v.Versions)
	v.Versions = slices.Compact(v.Versions)
	return v, nil
}

// ready asks whether the server is ready. An answer without a status is an error: the server is not tierq.
func (s *session) ready(ctx context.Context) (client.Readiness, error) {
	ready, err := s.client.Ready(ctx)
	if err == nil && ready.Status == "" {
		err = &client.Error{Status: http.StatusOK, Err: errors.New("the answer has no status")}
	}
	return ready, err
}

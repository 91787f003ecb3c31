package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
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

func (p program) versionCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: "Print the version", Args: noArgs}
	asJSON := cmd.Flags().Bool("json", false, "print version, commit, Go and platform as JSON")
	cmd.RunE = func(*cobra.Command, []string) error {
		v := readVersion()
		var err error
		if *asJSON {
			err = json.NewEncoder(p.stdout).Encode(v)
		} else {
			_, err = fmt.Fprintf(p.stdout, "tierq %s (%s, %s)\n", v.Version, v.Go, v.Platform)
		}
		if err != nil {
			return failure{fmt.Errorf("print the version: %w", err)}
		}
		return nil
	}
	return cmd
}

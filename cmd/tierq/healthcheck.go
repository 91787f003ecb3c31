package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tierq/tierq/internal/config"
)

// healthcheckTimeout is shorter than the health check's timeout in the Dockerfile, so that the reason is printed
// before Docker kills the process.
const healthcheckTimeout = 3 * time.Second

// healthcheckCommand asks a server on this machine whether it is ready. The image needs it because it is built
// from scratch and has no curl.
func (p program) healthcheckCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "healthcheck", Short: "Ask the server on this machine whether it is ready", Args: noArgs}
	addr := cmd.Flags().String("addr", "",
		"`host:port` of the server [TIERQ_ADDR] (default "+config.Default("TIERQ_ADDR")+")")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		target, err := dialable(cmp.Or(*addr, lookup(p.environ, "TIERQ_ADDR"), config.Default("TIERQ_ADDR")))
		if err != nil {
			return err
		}
		if err := p.checkHealth(cmd.Context(), target); err != nil {
			return failure{fmt.Errorf("healthcheck: %w", err)}
		}
		return nil
	}
	return cmd
}

func (p program) checkHealth(ctx context.Context, target string) error {
	ctx, cancel := context.WithTimeout(ctx, healthcheckTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+target+"/readyz", nil)
	if err != nil {
		return err
	}
	// The default transport would use a proxy from the environment, but a server's own check must reach the server
	// directly.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1024))
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s %s", resp.Status, strings.TrimSpace(string(body)))
	}
	fmt.Fprintln(p.stdout, strings.TrimSpace(string(body)))
	return nil
}

// dialable turns a listening address into one to connect to. It replaces "every interface" by loopback.
func dialable(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("TIERQ_ADDR=%q is not host:port", listen)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// lookup finds a variable in an environment in the form of os.Environ; the last one wins.
func lookup(environ []string, name string) string {
	found := ""
	for _, pair := range environ {
		if value, ok := strings.CutPrefix(pair, name+"="); ok {
			found = value
		}
	}
	return found
}

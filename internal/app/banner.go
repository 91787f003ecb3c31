package app

import (
	"fmt"
	"io"
	"strings"

	"github.com/tierq/tierq/internal/config"
)

// addresses are the addresses on which a process listens; "" for none.
type addresses struct{ api, ops, health, faktory string }

// writeBanner writes what a user wants to know first: the dashboard, a first job and the API; then where the data
// is and what a restart keeps. first is the text of a key that was just made; "" = none.
func writeBanner(
	w io.Writer,
	c config.Config,
	s *stores,
	out *outgoing,
	callers, key, first string,
	at addresses,
	version string,
) {
	var b strings.Builder
	fmt.Fprintf(&b, "\n  tierq %s, %s mode\n\n", version, s.mode)
	if at.api != "" {
		fmt.Fprintf(&b, "  dashboard     http://%s/dashboard\n", at.api)
		fmt.Fprintf(&b, "  a first job   curl -X POST http://%s/paid/submit%s\n", at.api, key)
		fmt.Fprintf(&b, "  its result    curl 'http://%s/result/poll?jobId=<the jobId it answered>'%s\n", at.api, key)
		fmt.Fprintf(&b, "  the API       http://%s/docs\n\n", at.api)
	}
	for _, line := range append(s.where, out.notes...) {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	fmt.Fprintf(&b, "  a restart     keeps %s\n", s.survives)
	if first != "" {
		fmt.Fprintf(&b, "  first key     %s\n", first)
		fmt.Fprintf(&b, "                an admin key, shown only once: make other keys with it (tierq keys create)\n")
	}
	var roles []string
	for _, r := range []struct {
		on   bool
		name string
	}{{c.Roles.API, "api"}, {c.Roles.Worker, fmt.Sprintf("%d workers", c.Workers)}, {c.Roles.Recovery, "recovery"}} {
		if r.on {
			roles = append(roles, r.name)
		}
	}
	fmt.Fprintf(&b, "  this process  %s\n", strings.Join(roles, ", "))
	if callers != "" {
		fmt.Fprintf(&b, "  callers       %s\n", callers)
	}
	if at.faktory != "" {
		fmt.Fprintf(&b, "  faktory       FAKTORY_URL=%s\n", at.faktory)
	}
	if at.health != "" {
		fmt.Fprintf(&b, "  health        http://%s/readyz\n", at.health)
	}
	if at.ops != "" {
		fmt.Fprintf(&b, "  metrics       http://%s/metrics\n", at.ops)
	}
	fmt.Fprintln(&b)
	_, _ = io.WriteString(w, b.String())
}
